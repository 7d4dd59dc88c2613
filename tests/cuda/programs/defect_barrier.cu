// The barrier between writing a tile and reading another thread's part of it is missing.
#include <cstdio>

__global__ void reverse(int* x) {
    __shared__ int tile[64];
    const int mine = threadIdx.x;
    tile[mine] = x[mine];  // finds race

    const int other = 63 - mine;
    x[mine] = tile[other];  // finds uninitialised
}

int main() {
    int* x;
    cudaMalloc(&x, 64 * sizeof(int));
    cudaMemset(x, 0, 64 * sizeof(int));
    reverse<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    cudaFree(x);
}
