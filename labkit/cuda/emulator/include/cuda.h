// Of the driver's functions those that tell about the device. Kernels and the runtime API need no #include.
#pragma once
#ifdef CUEMU_PROGRAM
#define CUDA_DRIVER_API 1  // what public headers look for
#define __cuda_cuda_h__ 1
#define CUDA_VERSION CUDART_VERSION

typedef enum {
    CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_NOT_SUPPORTED = 801, CUDA_ERROR_UNKNOWN = 999
} CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr, CUtexObject, CUsurfObject;
typedef cudaStream_t CUstream;
typedef enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1, CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10, CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED = 102, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED = 107
} CUdevice_attribute;

namespace cuemu {
inline CUresult driver_result(cudaError_t error) {
    const bool known = error == cudaErrorInvalidValue || error == cudaErrorMemoryAllocation || error == cudaErrorInvalidDevice;
    return error == cudaSuccess ? CUDA_SUCCESS : known ? (CUresult)error : CUDA_ERROR_UNKNOWN;
}
}  // namespace cuemu
inline CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
inline CUresult cuDriverGetVersion(int* version) { return *version = CUDA_VERSION, CUDA_SUCCESS; }
inline CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
inline CUresult cuDeviceGet(CUdevice* device, int number) {
    return *device = number, number ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
inline CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
inline CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (!error && size > 0) snprintf(name, (size_t)size, "%s", properties.name);
    return cuemu::driver_result(error);
}
inline CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    return *bytes = error ? 0 : properties.totalGlobalMem, cuemu::driver_result(error);
}
// What this device has not, as the mapping of virtual memory, is 0.
inline CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    if (attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED ||
        attribute == CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED) {
        return *value = 0, CUDA_SUCCESS;
    }
    return cuemu::driver_result(cudaDeviceGetAttribute(value, (cudaDeviceAttr)attribute, device));
}
inline CUresult cuGetErrorName(CUresult error, const char** name) {
    *name = error == CUDA_SUCCESS               ? "CUDA_SUCCESS"
            : error == CUDA_ERROR_INVALID_VALUE  ? "CUDA_ERROR_INVALID_VALUE"
            : error == CUDA_ERROR_OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == CUDA_ERROR_INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE"
            : error == CUDA_ERROR_NOT_SUPPORTED  ? "CUDA_ERROR_NOT_SUPPORTED"
                                                 : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}
inline CUresult cuGetErrorString(CUresult error, const char** text) {
    return *text = error == CUDA_ERROR_UNKNOWN ? "unknown error" : cudaGetErrorString((cudaError_t)error), CUDA_SUCCESS;
}
#endif
