// expect: 2
// The kernel is given an address whose memory has been freed, between two that live.
#include <cstdio>

__global__ void add(const float* x, const float* bias, float* y) {
    y[threadIdx.x] = x[threadIdx.x] + bias[threadIdx.x];  // finds out_of_bounds
}

int main() {
    float *x, *bias, *y, first;
    cudaMalloc(&x, 32 * sizeof(float));
    cudaMalloc(&bias, 32 * sizeof(float));
    cudaMalloc(&y, 32 * sizeof(float));
    const float ones[32] = {1.0f}, twos[32] = {1.0f};
    cudaMemcpy(x, ones, sizeof(ones), cudaMemcpyHostToDevice);
    cudaMemcpy(bias, twos, sizeof(twos), cudaMemcpyHostToDevice);
    cudaFree(bias);
    add<<<1, 32>>>(x, bias, y);
    cudaMemcpy(&first, y, sizeof(first), cudaMemcpyDeviceToHost);
    std::printf("%g\n", first);
    cudaFree(x);
    cudaFree(y);
}
