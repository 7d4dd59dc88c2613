// The runtime API's types and constants, with CUDA's values.
#pragma once
#include <stddef.h>

enum cudaError {
#define CUEMU_ERROR(NAME, NUMBER, TEXT) NAME = NUMBER,
#include "errors.inc"
#undef CUEMU_ERROR
};
typedef enum cudaError cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void* data);
typedef void (*cudaHostFn_t)(void* data);
#define CUDART_CB
#define CUDARTAPI
#define CUDART_VERSION 12080
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)

enum {
    cudaStreamDefault = 0, cudaStreamNonBlocking = 1,
    cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaEventInterprocess = 4,
    cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2, cudaHostAllocWriteCombined = 4,
    cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2,
    cudaMemAttachGlobal = 1, cudaMemAttachHost = 2, cudaMemAttachSingle = 4,
    cudaDeviceScheduleAuto = 0, cudaDeviceScheduleSpin = 1, cudaDeviceScheduleYield = 2,
    cudaDeviceScheduleBlockingSync = 4, cudaDeviceBlockingSync = 4, cudaDeviceMapHost = 8,
    cudaOccupancyDefault = 0, cudaCpuDeviceId = -1, cudaInvalidDeviceId = -2
};
enum cudaMemoryType {
    cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged
};
struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};
enum cudaMemoryAdvise {
    cudaMemAdviseSetReadMostly = 1, cudaMemAdviseUnsetReadMostly, cudaMemAdviseSetPreferredLocation,
    cudaMemAdviseUnsetPreferredLocation, cudaMemAdviseSetAccessedBy, cudaMemAdviseUnsetAccessedBy
};
typedef struct cudaArray* cudaArray_t;
typedef const struct cudaArray* cudaArray_const_t;
struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };
struct cudaPitchedPtr {
    void* ptr;
    size_t pitch, xsize, ysize;
};
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    enum cudaMemcpyKind kind;
};
static inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return {width, height, depth}; }
static inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
static inline cudaPitchedPtr make_cudaPitchedPtr(void* pointer, size_t pitch, size_t xsize, size_t ysize) {
    return {pointer, pitch, xsize, ysize};
}
enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported, cudaDevP2PAttrNativeAtomicSupported,
    cudaDevP2PAttrCudaArrayAccessSupported
};
enum cudaMemLocationType {
    cudaMemLocationTypeInvalid, cudaMemLocationTypeDevice, cudaMemLocationTypeHost, cudaMemLocationTypeHostNuma,
    cudaMemLocationTypeHostNumaCurrent
};
struct cudaMemLocation {
    cudaMemLocationType type;
    int id;
};
enum cudaMemAllocationType { cudaMemAllocationTypeInvalid, cudaMemAllocationTypePinned, cudaMemAllocationTypeManaged };
enum cudaMemAllocationHandleType { cudaMemHandleTypeNone, cudaMemHandleTypePosixFileDescriptor };
enum cudaMemAccessFlags { cudaMemAccessFlagsProtNone, cudaMemAccessFlagsProtRead, cudaMemAccessFlagsProtReadWrite = 3 };
struct cudaMemPoolProps {
    cudaMemAllocationType allocType;
    cudaMemAllocationHandleType handleTypes;
    cudaMemLocation location;
    void* win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};
struct cudaMemAccessDesc {
    cudaMemLocation location;
    cudaMemAccessFlags flags;
};
enum cudaAccessProperty { cudaAccessPropertyNormal, cudaAccessPropertyStreaming, cudaAccessPropertyPersisting };
struct cudaAccessPolicyWindow {
    void* base_ptr;
    size_t num_bytes;
    float hitRatio;
    cudaAccessProperty hitProp, missProp;
};
enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore, cudaLaunchAttributeAccessPolicyWindow, cudaLaunchAttributeCooperative,
    cudaLaunchAttributeSynchronizationPolicy, cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
    char pad[64];
    cudaAccessPolicyWindow accessPolicyWindow;
    int cooperative, syncPolicy, priority;
};
typedef cudaLaunchAttributeID cudaStreamAttrID;
typedef cudaLaunchAttributeValue cudaStreamAttrValue;
#define cudaStreamAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow
#define cudaStreamAttributeSynchronizationPolicy cudaLaunchAttributeSynchronizationPolicy
#define cudaStreamAttributePriority cudaLaunchAttributePriority
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaSharedMemConfig { cudaSharedMemBankSizeDefault, cudaSharedMemBankSizeFourByte, cudaSharedMemBankSizeEightByte };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
enum cudaSharedCarveout { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxShared = 100, cudaSharedmemCarveoutMaxL1 = 0 };
enum cudaComputeMode { cudaComputeModeDefault, cudaComputeModeExclusive, cudaComputeModeProhibited, cudaComputeModeExclusiveProcess };
enum cudaLimit {
    cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize, cudaLimitDevRuntimeSyncDepth,
    cudaLimitDevRuntimePendingLaunchCount, cudaLimitMaxL2FetchGranularity, cudaLimitPersistingL2CacheSize
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes,
        preferredShmemCarveout;
};

struct cudaUUID_t { char bytes[16]; };
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    int maxTexture1D, maxTexture2D[2], maxTexture3D[3], maxTexture1DLayered[2], maxTexture2DLayered[3];
    int maxTexture1DLinear, maxTexture2DLinear[3], maxTextureCubemap, maxSurface2D[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount,
        unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize,
        maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported,
        singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess,
        computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch,
        cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, memoryPoolsSupported;
};

// CUEMU_ATTRIBUTE(name, number, value in a cudaDeviceProp `p`)
#define CUEMU_ATTRIBUTES                                                             \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxThreadsPerBlock, 1, p.maxThreadsPerBlock)          \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxBlockDimX, 2, p.maxThreadsDim[0])                  \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxBlockDimY, 3, p.maxThreadsDim[1])                  \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxBlockDimZ, 4, p.maxThreadsDim[2])                  \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxGridDimX, 5, p.maxGridSize[0])                     \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxGridDimY, 6, p.maxGridSize[1])                     \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxGridDimZ, 7, p.maxGridSize[2])                     \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerBlock, 8, (int)p.sharedMemPerBlock) \
    CUEMU_ATTRIBUTE(cudaDevAttrTotalConstantMemory, 9, (int)p.totalConstMem)         \
    CUEMU_ATTRIBUTE(cudaDevAttrWarpSize, 10, p.warpSize)                             \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxRegistersPerBlock, 12, p.regsPerBlock)             \
    CUEMU_ATTRIBUTE(cudaDevAttrClockRate, 13, p.clockRate)                           \
    CUEMU_ATTRIBUTE(cudaDevAttrGpuOverlap, 15, p.deviceOverlap)                      \
    CUEMU_ATTRIBUTE(cudaDevAttrMultiProcessorCount, 16, p.multiProcessorCount)       \
    CUEMU_ATTRIBUTE(cudaDevAttrKernelExecTimeout, 17, 0)                             \
    CUEMU_ATTRIBUTE(cudaDevAttrIntegrated, 18, p.integrated)                         \
    CUEMU_ATTRIBUTE(cudaDevAttrCanMapHostMemory, 19, p.canMapHostMemory)             \
    CUEMU_ATTRIBUTE(cudaDevAttrComputeMode, 20, p.computeMode)                       \
    CUEMU_ATTRIBUTE(cudaDevAttrConcurrentKernels, 31, p.concurrentKernels)           \
    CUEMU_ATTRIBUTE(cudaDevAttrMemoryClockRate, 36, p.memoryClockRate)               \
    CUEMU_ATTRIBUTE(cudaDevAttrGlobalMemoryBusWidth, 37, p.memoryBusWidth)           \
    CUEMU_ATTRIBUTE(cudaDevAttrL2CacheSize, 38, p.l2CacheSize)                       \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxThreadsPerMultiProcessor, 39, p.maxThreadsPerMultiProcessor) \
    CUEMU_ATTRIBUTE(cudaDevAttrAsyncEngineCount, 40, p.asyncEngineCount)             \
    CUEMU_ATTRIBUTE(cudaDevAttrUnifiedAddressing, 41, p.unifiedAddressing)           \
    CUEMU_ATTRIBUTE(cudaDevAttrComputeCapabilityMajor, 75, p.major)                  \
    CUEMU_ATTRIBUTE(cudaDevAttrComputeCapabilityMinor, 76, p.minor)                  \
    CUEMU_ATTRIBUTE(cudaDevAttrStreamPrioritiesSupported, 78, p.streamPrioritiesSupported) \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 81, (int)p.sharedMemPerMultiprocessor) \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxRegistersPerMultiprocessor, 82, p.regsPerMultiprocessor) \
    CUEMU_ATTRIBUTE(cudaDevAttrManagedMemory, 83, p.managedMemory)                   \
    CUEMU_ATTRIBUTE(cudaDevAttrHostNativeAtomicSupported, 86, 0)                     \
    CUEMU_ATTRIBUTE(cudaDevAttrPageableMemoryAccess, 88, p.pageableMemoryAccess)     \
    CUEMU_ATTRIBUTE(cudaDevAttrConcurrentManagedAccess, 89, p.concurrentManagedAccess) \
    CUEMU_ATTRIBUTE(cudaDevAttrComputePreemptionSupported, 90, 0)                    \
    CUEMU_ATTRIBUTE(cudaDevAttrCooperativeLaunch, 95, p.cooperativeLaunch)           \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97, (int)p.sharedMemPerBlockOptin) \
    CUEMU_ATTRIBUTE(cudaDevAttrMaxBlocksPerMultiprocessor, 106, p.maxBlocksPerMultiProcessor) \
    CUEMU_ATTRIBUTE(cudaDevAttrMemoryPoolsSupported, 115, p.memoryPoolsSupported)

enum cudaDeviceAttr {
#define CUEMU_ATTRIBUTE(NAME, NUMBER, VALUE) NAME = NUMBER,
    CUEMU_ATTRIBUTES
#undef CUEMU_ATTRIBUTE
};
