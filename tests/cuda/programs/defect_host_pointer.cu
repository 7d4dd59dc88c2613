// expect: an illegal memory access was encountered
// expect: again: an illegal memory access was encountered
// The kernel is given host memory; from then on every call fails.
#include <cstdio>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }  // finds out_of_bounds

int main() {
    int* host = new int[32];
    fill<<<1, 32>>>(host);
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    int* x;
    std::printf("again: %s\n", cudaGetErrorString(cudaMalloc(&x, 4)));
    delete[] host;
}
