// The second file of several_a.cu.
#include "several.h"

static __device__ int offset = 0;
static __global__ void square(int* x) { *x = *x * *x + offset; }

int doubled_and_squared(int value) {
    int* x;
    cudaMalloc(&x, sizeof(int));
    value = twice(value);
    cudaMemcpy(x, &value, sizeof(int), cudaMemcpyHostToDevice);
    square<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(x);
    return value;
}
