// Devices, streams, events, graphs and launches.
#include <string.h>

#include "kernels.h"

using cuemu::ask;
using cuemu::noted;
using cuemu::number;
using cuemu::place;
using cuemu::tell;

extern "C" {

static cudaError_t only_device(int device) { return noted(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return only_device(device); }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return only_device(device); }
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return noted(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceDisablePeerAccess(int) { return noted(cudaErrorPeerAccessNotEnabled); }
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    *value = limit == cudaLimitStackSize ? 256 << 10 : limit == cudaLimitPrintfFifoSize ? 1 << 20 : 8 << 20;
    return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
    if (device) return only_device(device);
    const cuemu::Answer answer = ask("cudaGetDeviceProperties", CUEMU_SITE, {});
    memset(p, 0, sizeof(*p));
    strncpy(p->name, answer.data.c_str(), sizeof(p->name) - 1);
    p->totalGlobalMem = static_cast<size_t>(answer.values[0]);
    p->multiProcessorCount = static_cast<int>(answer.values[1]);
    p->major = 8, p->minor = 0;
    p->sharedMemPerBlock = 48 << 10, p->sharedMemPerBlockOptin = 227 << 10, p->sharedMemPerMultiprocessor = 228 << 10;
    p->reservedSharedMemPerBlock = 1 << 10;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048, p->maxBlocksPerMultiProcessor = 32;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->memPitch = 0x7fffffff, p->totalConstMem = 64 << 10;
    p->textureAlignment = 512, p->texturePitchAlignment = 32;
    p->clockRate = p->memoryClockRate = 1000000, p->memoryBusWidth = 4096, p->l2CacheSize = 40 << 20;
    p->deviceOverlap = p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;
    p->asyncEngineCount = 2, p->managedMemory = p->concurrentManagedAccess = p->streamPrioritiesSupported = 1;
    p->cooperativeLaunch = p->memoryPoolsSupported = 1;
    return noted(answer.error);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p;
    const cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error) return error;
    switch (attribute) {
#define CUEMU_ATTRIBUTE(NAME, NUMBER, VALUE) case NAME: *value = VALUE; return cudaSuccess;
        CUEMU_ATTRIBUTES
#undef CUEMU_ATTRIBUTE
    }
    return noted(cudaErrorInvalidValue);
}
cudaError_t cudaDeviceSynchronize() { return tell("cudaDeviceSynchronize", CUEMU_SITE, {}); }
cudaError_t cudaThreadSynchronize() { return tell("cudaThreadSynchronize", CUEMU_SITE, {}); }
cudaError_t cudaDeviceReset() { return tell("cudaDeviceReset", CUEMU_SITE, {}); }

// Streams and events are labkit's numbers in the place of pointers.
static cudaError_t made(const char* name, const void* site, void* handle, int64_t flags, int64_t priority = 0) {
    const cuemu::Answer answer = ask(name, site, {flags, priority});
    if (!answer.error) *static_cast<int64_t*>(handle) = answer.values[0];
    return noted(answer.error);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return made("cudaStreamCreate", CUEMU_SITE, stream, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return made("cudaStreamCreateWithFlags", CUEMU_SITE, stream, flags);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    return made("cudaStreamCreateWithPriority", CUEMU_SITE, stream, flags, priority);
}
static cuemu::Answer about(const char* name, const void* site, cudaStream_t stream) { return ask(name, site, {number(stream)}); }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    const cuemu::Answer answer = about("cudaStreamGetPriority", CUEMU_SITE, stream);
    return *priority = static_cast<int>(answer.values[0]), noted(answer.error);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    const cuemu::Answer answer = about("cudaStreamGetFlags", CUEMU_SITE, stream);
    return *flags = static_cast<unsigned>(answer.values[0]), noted(answer.error);
}
cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue*) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { return made("cudaEventCreate", CUEMU_SITE, event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    return made("cudaEventCreateWithFlags", CUEMU_SITE, event, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return tell("cudaStreamDestroy", CUEMU_SITE, {number(stream)}); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return tell("cudaStreamSynchronize", CUEMU_SITE, {number(stream)}); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return tell("cudaStreamQuery", CUEMU_SITE, {number(stream)}); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    return tell("cudaStreamWaitEvent", CUEMU_SITE, {number(stream), number(event)});
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
    cuemu::expect_calls();
    return tell("cudaLaunchHostFunc", CUEMU_SITE, {number(stream), reinterpret_cast<int64_t>(callback), number(data), 1});
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    cuemu::expect_calls();
    return tell("cudaLaunchHostFunc", CUEMU_SITE, {number(stream), reinterpret_cast<int64_t>(function), number(data), 0});
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return tell("cudaEventDestroy", CUEMU_SITE, {number(event)}); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return tell("cudaEventRecord", CUEMU_SITE, {number(event), number(stream)});
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return tell("cudaEventSynchronize", CUEMU_SITE, {number(event)}); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return tell("cudaEventQuery", CUEMU_SITE, {number(event)}); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    const cuemu::Answer answer = ask("cudaEventElapsedTime", CUEMU_SITE, {number(start), number(end)});
    *milliseconds = static_cast<float>(answer.values[0]);
    return noted(answer.error);
}

cudaError_t cuemu_launch(const void* kernel, const void* thunk, const cuemu::Config* config,
                         const cuemu::Argument* arguments, unsigned count) {
    const std::string body = cuemu::launch_body(*config, arguments, count);
    return tell("cudaLaunchKernel", CUEMU_SITE,
                {place(kernel), place(thunk), static_cast<int64_t>(config->shared_bytes), number(config->stream)}, body.data(),
                body.size());
}
cudaError_t cuemu_set_dynamic_shared(const void* kernel, const void* thunk, int size) {
    return tell("cudaFuncSetAttribute", CUEMU_SITE, {place(kernel), place(thunk), size});
}
cudaError_t cuemu_attributes(cudaFuncAttributes* attributes, const void* kernel, const void* thunk) {
    const cuemu::Answer answer = ask("cudaFuncGetAttributes", CUEMU_SITE, {place(kernel), place(thunk)});
    memset(attributes, 0, sizeof(*attributes));
    attributes->sharedSizeBytes = static_cast<size_t>(answer.values[0]);
    attributes->maxThreadsPerBlock = static_cast<int>(answer.values[1]);
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(answer.values[2]);
    attributes->numRegs = 32, attributes->ptxVersion = attributes->binaryVersion = 80;
    return noted(answer.error);
}
cudaError_t cuemu_occupancy(int* blocks, const void* kernel, const void* thunk, int block_size, size_t shared_bytes) {
    const cuemu::Answer answer = ask("cudaOccupancyMaxActiveBlocksPerMultiprocessor", CUEMU_SITE,
                                     {place(kernel), place(thunk), block_size, static_cast<int64_t>(shared_bytes)});
    *blocks = static_cast<int>(answer.values[0]);
    return noted(answer.error);
}
cudaError_t cuemu_best_block(int* grid, int* block, const void* kernel, const void* thunk, size_t shared_bytes, int limit) {
    const cuemu::Answer answer = ask("cudaOccupancyMaxPotentialBlockSize", CUEMU_SITE,
                                     {place(kernel), place(thunk), static_cast<int64_t>(shared_bytes), limit});
    *grid = static_cast<int>(answer.values[0]), *block = static_cast<int>(answer.values[1]);
    return noted(answer.error);
}

}
