// Memory pools. The device's allocator is one pool already, so that every pool is the same one: what is
// kept back for later is nothing here, and reports as nothing.
#pragma once
#include "api.h"

typedef struct CUmemPoolHandle_st* cudaMemPool_t;
enum cudaMemPoolAttr {
    cudaMemPoolReuseFollowEventDependencies = 1, cudaMemPoolReuseAllowOpportunistic, cudaMemPoolReuseAllowInternalDependencies,
    cudaMemPoolAttrReleaseThreshold, cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrReservedMemHigh,
    cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh
};

inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { return *pool = (cudaMemPool_t)1, cudaSuccess; }
inline cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int) { return *pool = (cudaMemPool_t)1, cudaSuccess; }
inline cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) { return *pool = (cudaMemPool_t)1, cudaSuccess; }
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* value) {
    if (attribute >= cudaMemPoolAttrReleaseThreshold) {
        *(unsigned long long*)value = 0;
    } else {
        *(int*)value = 1;
    }
    return cudaSuccess;
}
// Only the one device is there to have access.
inline cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc* given, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        if (given[i].location.type != cudaMemLocationTypeDevice || given[i].location.id) return cudaErrorInvalidDevice;
    }
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t, cudaMemLocation*) {
    return *flags = cudaMemAccessFlagsProtReadWrite, cudaSuccess;
}
template <class T>
__attribute__((always_inline)) inline cudaError_t cudaMallocFromPoolAsync(T** pointer, size_t size, cudaMemPool_t, cudaStream_t stream) {
    return ::cudaMallocAsync((void**)pointer, size, stream);
}
