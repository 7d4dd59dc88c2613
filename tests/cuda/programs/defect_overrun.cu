// expect: done
#include <cstdio>

__global__ void scale(float* x, int n, float by) {
    for (int i = threadIdx.x; i <= n; i += blockDim.x) x[i] *= by;  // finds out_of_bounds
}

int main() {
    float *x, *neighbour;
    cudaMalloc(&x, 128 * sizeof(float));  // 512 bytes: the next allocation begins right behind
    cudaMalloc(&neighbour, 128 * sizeof(float));
    cudaMemset(x, 0, 128 * sizeof(float));
    cudaMemset(neighbour, 0, 128 * sizeof(float));
    scale<<<1, 32>>>(x, 128, 2.0f);
    cudaDeviceSynchronize();
    std::printf("done\n");
    cudaFree(x);
    cudaFree(neighbour);
}
