// expect: 1 device, warp 32, at most 1024 threads
// expect: attribute says 1024, occupancy is positive: 1, block is a multiple of 32: 1
// expect: invalid configuration argument, then no error
// expect: cudaErrorInvalidValue: invalid argument
// expect: 65536 bytes of dynamic shared memory: no error
// expect: the driver says 1024 threads, compute capability 8, no virtual memory: 0, CUDA_ERROR_INVALID_DEVICE
// What a program asks the device, and how errors are told, once.
#include <cstdio>
#include <cuda.h>

__global__ void nothing() {}
__global__ void shared(int* out) {
    extern __shared__ int buffer[];
    buffer[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 0) *out = buffer[0];
}

int main() {
    int count, attribute, blocks, grid, block, *out;
    cudaDeviceProp properties;
    cudaGetDeviceCount(&count);
    cudaGetDeviceProperties(&properties, 0);
    std::printf("%d device, warp %d, at most %d threads\n", count, properties.warpSize, properties.maxThreadsPerBlock);
    cudaDeviceGetAttribute(&attribute, cudaDevAttrMaxThreadsPerBlock, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 128, 0);
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, nothing);
    std::printf("attribute says %d, occupancy is positive: %d, block is a multiple of 32: %d\n", attribute, blocks > 0, block % 32 == 0);
    nothing<<<1, 2048>>>();  // finds launch_configuration
    const char* first = cudaGetErrorString(cudaGetLastError());
    std::printf("%s, then %s\n", first, cudaGetErrorString(cudaGetLastError()));
    cudaError_t wrong = cudaMemcpy(&count, &block, sizeof(int), cudaMemcpyHostToDevice);  // finds api_error
    std::printf("%s: %s\n", cudaGetErrorName(wrong), cudaGetErrorString(wrong));
    cudaGetLastError();
    cudaMalloc(&out, sizeof(int));
    cudaFuncSetAttribute(shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
    shared<<<1, 32, 64 << 10>>>(out);
    std::printf("%d bytes of dynamic shared memory: %s\n", 64 << 10, cudaGetErrorString(cudaDeviceSynchronize()));
    cudaFree(out);

    CUdevice device;
    int threads, major, virtual_memory;
    const char* name;
    cuCtxGetDevice(&device);
    cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    cuDeviceGetAttribute(&virtual_memory, CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED, device);
    cuGetErrorName(cuDeviceGet(&device, 1), &name);
    std::printf("the driver says %d threads, compute capability %d, no virtual memory: %d, %s\n", threads, major, virtual_memory, name);
}
