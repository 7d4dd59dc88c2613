// Batch norm in training, rung 2 of 3: mean and variance in one pass.
// Threads keep count, mean and squares of their own elements and merge them: x is read twice
// instead of three times. Still one block per channel.
//
// x, y [N, C, S] (S: all spatial sizes), gamma, beta [C] or null, mean, rstd [C]
// running_mean, running_var [C] or null: moved by `momentum` towards this batch's
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once. All that a channel has one of is f32.
// launch: grid (anything up to C), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 2
// Counter of bfloat16: read global.x sectors/request = 2
// Counter of bfloat16: read global.x lanes/output = 2
#include "lab.cuh"
#include "moments.cuh"
#include "narrow.cuh"

template <class T>
__device__ __forceinline__ void normalise(const T* __restrict__ x, const float* __restrict__ gamma,
                                          const float* __restrict__ beta,
                                          float* __restrict__ running_mean,
                                          float* __restrict__ running_var, T* __restrict__ y,
                                          float* __restrict__ mean, float* __restrict__ rstd,
                                          long long N, long long C, long long S, float momentum,
                                          float eps) {
    const float count = N * S;
    for (long long c = blockIdx.x; c < C; c += gridDim.x) {
        Moments moments = kNoMoments;
        for (long long i = threadIdx.x; i < N * S; i += blockDim.x) {
            include(moments, static_cast<float>(x[channel_offset(i, c, C, S)]));
        }
        moments = block_all_reduce(moments, kNoMoments, MergeMoments());
        const float scale = rsqrtf(moments.squares / count + eps);
        for (long long i = threadIdx.x; i < N * S; i += blockDim.x) {
            const long long at = channel_offset(i, c, C, S);
            const float normal = (static_cast<float>(x[at]) - moments.mean) * scale;
            y[at] = T(normal * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f));
        }
        if (threadIdx.x == 0) {
            mean[c] = moments.mean;
            rstd[c] = scale;
            if (running_mean) running_mean[c] += momentum * (moments.mean - running_mean[c]);
            if (running_var) {
                running_var[c] += momentum * (moments.squares / (count - 1.0f) - running_var[c]);
            }
        }
    }
}

extern "C" __global__ void batch_norm_2_welford(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    float* __restrict__ running_mean, float* __restrict__ running_var, float* __restrict__ y,
    float* __restrict__ mean, float* __restrict__ rstd, long long N, long long C, long long S,
    float momentum, float eps) {
    normalise(x, gamma, beta, running_mean, running_var, y, mean, rstd, N, C, S, momentum, eps);
}

extern "C" __global__ void batch_norm_2_welford_half(
    const __half* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    float* __restrict__ running_mean, float* __restrict__ running_var, __half* __restrict__ y,
    float* __restrict__ mean, float* __restrict__ rstd, long long N, long long C, long long S,
    float momentum, float eps) {
    normalise(x, gamma, beta, running_mean, running_var, y, mean, rstd, N, C, S, momentum, eps);
}

extern "C" __global__ void batch_norm_2_welford_bfloat16(
    const __nv_bfloat16* __restrict__ x, const float* __restrict__ gamma,
    const float* __restrict__ beta, float* __restrict__ running_mean,
    float* __restrict__ running_var, __nv_bfloat16* __restrict__ y, float* __restrict__ mean,
    float* __restrict__ rstd, long long N, long long C, long long S, float momentum, float eps) {
    normalise(x, gamma, beta, running_mean, running_var, y, mean, rstd, N, C, S, momentum, eps);
}
