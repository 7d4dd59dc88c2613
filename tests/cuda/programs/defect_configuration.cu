// expect: total 0
// 2,048 threads are too many for a block, and nobody asks whether the kernel ran.
#include <cstdio>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    const int n = 2048;
    static int host[n];
    int* x;
    cudaMalloc(&x, n * sizeof(int));
    cudaMemset(x, 0, n * sizeof(int));

    fill<<<1, n>>>(x);  // finds launch_configuration

    cudaMemcpy(host, x, n * sizeof(int), cudaMemcpyDeviceToHost);
    int total = 0;
    for (int value : host) total += value;
    std::printf("total %d\n", total);
    cudaFree(x);
}
