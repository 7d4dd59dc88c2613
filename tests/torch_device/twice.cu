// An extension as they are written for cards: a guard, the current stream, a check after the launch.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

__global__ void twice_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * x[i];
}

static at::Tensor twice(const at::Tensor& x, int64_t threads) {
    const at::cuda::OptionalCUDAGuard guard(x.device());
    const at::Tensor out = at::empty_like(x);
    const int n = x.numel();
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    twice_kernel<<<(n + threads - 1) / threads, threads, 0, stream>>>(x.const_data_ptr<float>(),
                                                                   out.mutable_data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

TORCH_LIBRARY(labkit_twice, m) { m.def("twice(Tensor x, int threads) -> Tensor"); }
TORCH_LIBRARY_IMPL(labkit_twice, CUDA, m) { m.impl("twice", &twice); }
