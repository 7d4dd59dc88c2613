// The stream that PyTorch has current on the device, as the runtime API names it.
#pragma once
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDAException.h>

namespace labkit {
struct CurrentStream {
    cudaStream_t handle;
    cudaStream_t stream() const { return handle; }
    operator cudaStream_t() const { return handle; }
};
}  // namespace labkit

namespace at::cuda {
inline labkit::CurrentStream getCurrentCUDAStream(c10::DeviceIndex index = -1) {
    const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
    const c10::Device device = index < 0 ? guard.getDevice() : c10::Device(guard.type(), index);
    const int64_t id = guard.getStream(device).id();
    return {reinterpret_cast<cudaStream_t>(id ? id + 2 : 0)};  // 1 and 2 are CUDA's own names
}
inline cudaDeviceProp* getCurrentDeviceProperties() {
    static cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    return &properties;
}
}  // namespace at::cuda
namespace c10::cuda { using at::cuda::getCurrentCUDAStream; }
