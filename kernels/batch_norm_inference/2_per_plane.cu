// Batch norm in inference, rung 2 of 2: a block per plane, the channel folded into y = a x + b.
// All elements of a plane share a channel: its a and b are computed once per thread, and what is
// left is one multiply-add per element, four elements to a float4 where the plane is aligned.
//
// x, y [N, C, S] (S: all spatial sizes), running_mean, running_var [C], gamma, beta [C] or null
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once. All that a channel has one of is f32.
// launch: grid (anything up to N C), block (anything)
// Counter: read global.x bytes/lane = 16
// Counter: read global.x sectors/request = 16
// Counter: read global.* lanes/output = 0.5
// Counter of bfloat16: read global.x bytes/lane = 8
// Counter of bfloat16: read global.x sectors/request = 8
#include "lab.cuh"
#include "planes.cuh"

template <class T>
__device__ __forceinline__ void normalise(const T* __restrict__ x, const float* __restrict__ gamma,
                                          const float* __restrict__ beta,
                                          const float* __restrict__ running_mean,
                                          const float* __restrict__ running_var, T* __restrict__ y,
                                          long long N, long long C, long long S, float eps) {
    for (long long plane = blockIdx.x; plane < N * C; plane += gridDim.x) {
        const long long c = plane % C;
        const float a = rsqrtf(running_var[c] + eps) * (gamma ? gamma[c] : 1.0f);
        const float b = (beta ? beta[c] : 0.0f) - running_mean[c] * a;
        scale_and_shift(x + plane * S, y + plane * S, S, a, b);
    }
}

extern "C" __global__ void batch_norm_inference_2_per_plane(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
    float* __restrict__ y, long long N, long long C, long long S, float eps) {
    normalise(x, gamma, beta, running_mean, running_var, y, N, C, S, eps);
}

extern "C" __global__ void batch_norm_inference_2_per_plane_half(
    const __half* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
    __half* __restrict__ y, long long N, long long C, long long S, float eps) {
    normalise(x, gamma, beta, running_mean, running_var, y, N, C, S, eps);
}

extern "C" __global__ void batch_norm_inference_2_per_plane_bfloat16(
    const __nv_bfloat16* __restrict__ x, const float* __restrict__ gamma,
    const float* __restrict__ beta, const float* __restrict__ running_mean,
    const float* __restrict__ running_var, __nv_bfloat16* __restrict__ y, long long N, long long C,
    long long S, float eps) {
    normalise(x, gamma, beta, running_mean, running_var, y, N, C, S, eps);
}
