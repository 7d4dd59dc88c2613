// expect: 16 32 48
// expect: access of this device: no error, of another: invalid device ordinal
// Memory that comes and goes in the order of a stream, from the device's pool and from one of its own.
#include <cstdio>

__global__ void fill(int* x) { x[threadIdx.x] = 16 * threadIdx.x; }
__global__ void pick(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }

int main() {
    cudaMemPool_t own, pool;
    cudaDeviceGetDefaultMemPool(&own, 0);
    unsigned long long threshold = ~0ull;
    cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &threshold);
    cudaMemPoolProps properties = {};
    cudaMemPoolCreate(&pool, &properties);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    int *x, *y, host[3];
    cudaMallocAsync(&x, 4 * sizeof(int), stream);
    cudaMallocFromPoolAsync(&y, 3 * sizeof(int), pool, stream);
    fill<<<1, 4, 0, stream>>>(x);
    pick<<<1, 3, 0, stream>>>(x, y);
    cudaMemcpyAsync(host, y, sizeof(host), cudaMemcpyDeviceToHost, stream);
    cudaFreeAsync(x, stream);
    cudaFreeAsync(y, stream);
    cudaStreamSynchronize(stream);
    std::printf("%d %d %d\n", host[0], host[1], host[2]);
    cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
    std::printf("access of this device: %s, ", cudaGetErrorString(cudaMemPoolSetAccess(pool, &access, 1)));
    access.location.id = 1;
    std::printf("of another: %s\n", cudaGetErrorString(cudaMemPoolSetAccess(pool, &access, 1)));
    cudaMemPoolDestroy(pool);
    cudaStreamDestroy(stream);
}
