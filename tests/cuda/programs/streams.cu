// expect: sum of 4 parts: 2096128
// expect: host function saw 4
// expect: time is positive: 1
// Four streams that each copy a part in, reduce it and copy one number out; events around all.
#include <cstdio>

__global__ void sum(const int* in, int n, int* out) {
    extern __shared__ int partial[];
    int mine = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine += in[i];
    partial[threadIdx.x] = mine;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = partial[0];
}

void count(void* data) { ++*static_cast<int*>(data); }

int main() {
    const int parts = 4, each = 512, threads = 128;
    int *in, *out, *device_in, *device_out, called = 0;
    cudaMallocHost(&in, parts * each * sizeof(int));
    cudaHostAlloc(&out, parts * sizeof(int), cudaHostAllocDefault);
    cudaMalloc(&device_in, parts * each * sizeof(int));
    cudaMalloc(&device_out, parts * sizeof(int));
    for (int i = 0; i < parts * each; ++i) in[i] = i;
    cudaStream_t streams[parts];
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start);
    for (int p = 0; p < parts; ++p) {
        cudaStreamCreate(&streams[p]);
        cudaMemcpyAsync(device_in + p * each, in + p * each, each * sizeof(int), cudaMemcpyHostToDevice, streams[p]);
        sum<<<1, threads, threads * sizeof(int), streams[p]>>>(device_in + p * each, each, device_out + p);
        cudaMemcpyAsync(out + p, device_out + p, sizeof(int), cudaMemcpyDeviceToHost, streams[p]);
        cudaLaunchHostFunc(streams[p], count, &called);
    }
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float time = 0.0f;
    cudaEventElapsedTime(&time, start, stop);
    int total = 0;
    for (int p = 0; p < parts; ++p) {
        cudaStreamSynchronize(streams[p]);
        total += out[p];
        cudaStreamDestroy(streams[p]);
    }
    std::printf("sum of %d parts: %d\nhost function saw %d\ntime is positive: %d\n", parts, total, called, time > 0);
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    cudaFree(device_in);
    cudaFree(device_out);
    cudaFreeHost(in);
    cudaFreeHost(out);
    return 0;
}
