// Only the first half of a shared array is filled; all of it is summed.
#include <cstdio>

__global__ void sum(const int* in, int* out) {
    __shared__ int buffer[64];
    if (threadIdx.x < 32) buffer[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(out, buffer[i]);  // finds uninitialised
}

int main() {
    int *in, *out;
    cudaMalloc(&in, 64 * sizeof(int));
    cudaMalloc(&out, sizeof(int));
    cudaMemset(in, 0, 64 * sizeof(int));
    cudaMemset(out, 0, sizeof(int));
    sum<<<1, 64>>>(in, out);
    cudaDeviceSynchronize();
    cudaFree(in);
    cudaFree(out);
}
