// An error of the runtime API, raised as PyTorch's.
#pragma once
#include <c10/util/Exception.h>

#define C10_CUDA_CHECK(call)                                                                       \
    do {                                                                                           \
        const cudaError_t labkit_error = (call);                                                   \
        if (labkit_error != cudaSuccess) {                                                         \
            cudaGetLastError();                                                                    \
            TORCH_CHECK(false, "CUDA error: ", cudaGetErrorString(labkit_error));                  \
        }                                                                                          \
    } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
