// status: 139
// The result is printed without having been copied back.
#include <cstdio>

__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }

int main() {
    int* x;
    cudaMalloc(&x, 32 * sizeof(int));
    fill<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    std::printf("x[3] = %d\n", x[3]);  // finds host_access
    cudaFree(x);
}
