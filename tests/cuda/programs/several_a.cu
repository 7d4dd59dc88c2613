// sources: several_a.cu several_b.cu
// arguments: 6 words here
// expect: 4 arguments, the first is 6
// expect: 6 doubled and squared: 144
// expect: its namesake here: 756
// expect: from a kernel: 144
// status: 7
// Two files, a header between them, arguments, an exit status, and output of a kernel in its place.
#include <cstdio>
#include <cstdlib>

#include "several.h"

// The other file has a kernel and a variable of these names, too.
static __device__ int offset = 1000;
static __global__ void square(int* x) { *x = offset - *x; }

int main(int argc, char** argv) {
    std::printf("%d arguments, the first is %s\n", argc, argv[1]);
    const int result = doubled_and_squared(std::atoi(argv[1]));
    std::printf("%s doubled and squared: %d\n", argv[1], result);
    int *x, own = 900;
    cudaMallocManaged(&x, sizeof(int));
    *x = result;
    cudaMemcpyToSymbol(offset, &own, sizeof(int));
    square<<<1, 1>>>(x);
    cudaDeviceSynchronize();
    std::printf("its namesake here: %d\n", *x);
    cudaFree(x);
    say<<<1, 1>>>(result);
    cudaDeviceSynchronize();
    return 7;
}
