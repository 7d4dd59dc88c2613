// The runtime API as whole programs call it. Each function is a message to labkit, which owns the
// device (labkit/cuda/programs/); only these declarations are compiled with a program.
#pragma once
#include "types.h"
#include "graphs.h"

// What public headers look for, to see that CUDA's have been included.
#define __DRIVER_TYPES_H__
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__

extern "C" {
// Errors
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);

// Devices
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaThreadSynchronize();
cudaError_t cudaDeviceReset();
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value);
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit);
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config);
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config);
cudaError_t cudaCtxResetPersistingL2Cache();
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();

// Memory
cudaError_t cudaMalloc(void** pointer, size_t size);
cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream);
cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height);
cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned flags = cudaMemAttachGlobal);
cudaError_t cudaMallocHost(void** pointer, size_t size, unsigned flags = 0);
cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned flags);
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags);
cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned flags);
cudaError_t cudaHostUnregister(void* pointer);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
cudaError_t cudaMemAdvise(const void* pointer, size_t size, cudaMemoryAdvise advice, int device);
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t size, int device, cudaStream_t stream = 0);
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t size = 0,
                                     unsigned flags = cudaMemAttachSingle);

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemset(void* pointer, int value, size_t size);
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t size, cudaStream_t stream = 0);
cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height);
cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream = 0);
cudaError_t cuemu_to_symbol(const void* symbol, const void* from, size_t size, size_t offset, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cuemu_from_symbol(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind,
                              cudaStream_t stream);
cudaError_t cuemu_symbol(void** address, size_t* size, const void* symbol);

// Streams and events
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue* value);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

// Graphs
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cuemu_instantiate(cudaGraphExec_t* executable, cudaGraph_t graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
}

// Typed pointers, as CUDA's own header offers them.
#define CUEMU_TYPED(NAME, PARAMETERS, ...)                                       \
    template <class T> __attribute__((always_inline)) inline cudaError_t NAME PARAMETERS { return ::NAME(__VA_ARGS__); }
CUEMU_TYPED(cudaMalloc, (T** pointer, size_t size), (void**)pointer, size)
CUEMU_TYPED(cudaMallocAsync, (T** pointer, size_t size, cudaStream_t stream), (void**)pointer, size, stream)
CUEMU_TYPED(cudaMallocPitch, (T** pointer, size_t* pitch, size_t width, size_t height), (void**)pointer, pitch, width, height)
CUEMU_TYPED(cudaMallocManaged, (T** pointer, size_t size, unsigned flags = cudaMemAttachGlobal), (void**)pointer, size, flags)
CUEMU_TYPED(cudaMallocHost, (T** pointer, size_t size, unsigned flags = 0), (void**)pointer, size, flags)
CUEMU_TYPED(cudaHostAlloc, (T** pointer, size_t size, unsigned flags), (void**)pointer, size, flags)
CUEMU_TYPED(cudaHostGetDevicePointer, (T** device, void* host, unsigned flags), (void**)device, host, flags)
#undef CUEMU_TYPED

// Overloads of C++: an event's flags, and memory's places as CUDA 13 names them.
#define CUEMU_ALSO __attribute__((always_inline)) inline cudaError_t
CUEMU_ALSO cudaEventCreate(cudaEvent_t* event, unsigned flags) { return cudaEventCreateWithFlags(event, flags); }
CUEMU_ALSO cudaMemAdvise(const void* pointer, size_t size, cudaMemoryAdvise advice, cudaMemLocation place) {
    return cudaMemAdvise(pointer, size, advice, place.id);
}
CUEMU_ALSO cudaMemPrefetchAsync(const void* pointer, size_t size, cudaMemLocation place, unsigned,
                                cudaStream_t stream = 0) {
    return cudaMemPrefetchAsync(pointer, size, place.id, stream);
}
// There is one device, so a copy between devices is a copy.
CUEMU_ALSO cudaMemcpyPeer(void* to, int, const void* from, int, size_t size) {
    return cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice);
}
CUEMU_ALSO cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t stream = 0) {
    return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
}
CUEMU_ALSO cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) { return *value = 0, cudaSuccess; }
#define CUEMU_HOST template <class T> __attribute__((always_inline)) inline cudaError_t
CUEMU_HOST cudaMemcpyToSymbol(const T& symbol, const void* from, size_t size, size_t offset = 0,
                              cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return cuemu_to_symbol((const void*)&symbol, from, size, offset, kind, 0);
}
CUEMU_HOST cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t size, size_t offset = 0,
                                   cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0) {
    return cuemu_to_symbol((const void*)&symbol, from, size, offset, kind, stream);
}
CUEMU_HOST cudaMemcpyFromSymbol(void* to, const T& symbol, size_t size, size_t offset = 0,
                                cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return cuemu_from_symbol(to, (const void*)&symbol, size, offset, kind, 0);
}
CUEMU_HOST cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t size, size_t offset = 0,
                                     cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0) {
    return cuemu_from_symbol(to, (const void*)&symbol, size, offset, kind, stream);
}
CUEMU_HOST cudaGetSymbolAddress(void** address, const T& symbol) {
    return cuemu_symbol(address, nullptr, (const void*)&symbol);
}
CUEMU_HOST cudaGetSymbolSize(size_t* size, const T& symbol) {
    return cuemu_symbol(nullptr, size, (const void*)&symbol);
}
template <class... A>
__attribute__((always_inline)) inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, A...) {
    return cuemu_instantiate(executable, graph);
}
