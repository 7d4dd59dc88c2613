// expect: 0 1 4 9 ... 9801
// expect: zero copy: 42
// Memory that both sides reach: managed, and pinned host memory as the device sees it.
#include <cstdio>

__global__ void square(int* values, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] *= values[i];
}
__global__ void put(int* place, int value) { *place = value; }

int main() {
    const int n = 100;
    int *values, *host, *device;
    cudaMallocManaged(&values, n * sizeof(int));
    for (int i = 0; i < n; ++i) values[i] = i;
    square<<<2, 64>>>(values, n);
    cudaDeviceSynchronize();
    std::printf("%d %d %d %d ... %d\n", values[0], values[1], values[2], values[3], values[n - 1]);
    cudaFree(values);
    cudaHostAlloc(&host, sizeof(int), cudaHostAllocMapped);
    cudaHostGetDevicePointer(&device, host, 0);
    put<<<1, 1>>>(device, 42);
    cudaDeviceSynchronize();
    std::printf("zero copy: %d\n", *host);
    cudaFreeHost(host);
}
