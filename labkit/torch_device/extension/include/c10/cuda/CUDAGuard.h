// A guard of the current device, under the name that it has for CUDA.
#pragma once
#include <c10/core/DeviceGuard.h>

namespace c10::cuda {
struct CUDAGuard : c10::DeviceGuard {
    explicit CUDAGuard(c10::Device device) : DeviceGuard(device) {}
    explicit CUDAGuard(c10::DeviceIndex index)
        : DeviceGuard(c10::Device(c10::DeviceType::PrivateUse1, index)) {}
};
struct OptionalCUDAGuard : c10::OptionalDeviceGuard {
    using OptionalDeviceGuard::OptionalDeviceGuard;
};
}  // namespace c10::cuda
namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::OptionalCUDAGuard;
}  // namespace at::cuda
