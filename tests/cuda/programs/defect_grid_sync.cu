// expect: unspecified launch failure
// The grid waits for itself, and was launched as any other.
#include <cooperative_groups.h>
#include <cstdio>

__global__ void wait(int* x) {
    x[blockIdx.x] = 1;
    cooperative_groups::this_grid().sync();  // finds grid_sync
}

int main() {
    int* x;
    cudaMalloc(&x, 4 * sizeof(int));
    wait<<<4, 1>>>(x);
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    cudaFree(x);
}
