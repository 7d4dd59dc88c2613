// Batch norm backward, rung 1 of 2: one block per channel.
// With n = (x - mean) rstd, dbeta is the channel's sum of dy, dgamma its sum of dy n, and
// dx = gamma rstd (dy - mean of dy - n (mean of dy n)). Sums first, then dx: dy and x are read
// twice. In eval mode mean and rstd do not depend on x, and dx is gamma rstd dy alone.
//
// dy, x, dx [N, C, S], gamma [C] or null, mean, rstd, dgamma, dbeta [C]
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once. All that a channel has one of is f32.
// launch: grid (anything up to C), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 2
// Counter: read global.dy lanes/output = 2
// Counter of bfloat16: read global.x sectors/request = 2
// Counter of bfloat16: read global.dy lanes/output = 2
#include "lab.cuh"
#include "narrow.cuh"
#include "pair.cuh"

template <class T>
__device__ __forceinline__ void gradients(const T* __restrict__ dy, const T* __restrict__ x,
                                          const float* __restrict__ gamma,
                                          const float* __restrict__ mean,
                                          const float* __restrict__ rstd, T* __restrict__ dx,
                                          float* __restrict__ dgamma, float* __restrict__ dbeta,
                                          long long N, long long C, long long S, bool training) {
    const float count = N * S;
    for (long long c = blockIdx.x; c < C; c += gridDim.x) {
        Pair sums = {0.0f, 0.0f};  // of dy, of dy n
        for (long long i = threadIdx.x; i < N * S; i += blockDim.x) {
            const long long at = channel_offset(i, c, C, S);
            const float g = dy[at], v = x[at];
            sums = AddPairs()(sums, {g, g * (v - mean[c]) * rstd[c]});
        }
        sums = block_all_reduce(sums, {0.0f, 0.0f}, AddPairs());
        if (threadIdx.x == 0) {
            dbeta[c] = sums.first;
            dgamma[c] = sums.second;
        }
        const float scale = rstd[c] * (gamma ? gamma[c] : 1.0f);
        const float mean_dy = training ? sums.first / count : 0.0f;
        const float mean_dy_n = training ? sums.second / count : 0.0f;
        for (long long i = threadIdx.x; i < N * S; i += blockDim.x) {
            const long long at = channel_offset(i, c, C, S);
            const float g = dy[at], v = x[at];
            const float normal = (v - mean[c]) * rstd[c];
            dx[at] = T(scale * (g - mean_dy - normal * mean_dy_n));
        }
    }
}

extern "C" __global__ void batch_norm_backward_1_block_per_channel(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ gamma,
    const float* __restrict__ mean, const float* __restrict__ rstd, float* __restrict__ dx,
    float* __restrict__ dgamma, float* __restrict__ dbeta, long long N, long long C, long long S,
    bool training) {
    gradients(dy, x, gamma, mean, rstd, dx, dgamma, dbeta, N, C, S, training);
}

extern "C" __global__ void batch_norm_backward_1_block_per_channel_half(
    const __half* __restrict__ dy, const __half* __restrict__ x, const float* __restrict__ gamma,
    const float* __restrict__ mean, const float* __restrict__ rstd, __half* __restrict__ dx,
    float* __restrict__ dgamma, float* __restrict__ dbeta, long long N, long long C, long long S,
    bool training) {
    gradients(dy, x, gamma, mean, rstd, dx, dgamma, dbeta, N, C, S, training);
}

extern "C" __global__ void batch_norm_backward_1_block_per_channel_bfloat16(
    const __nv_bfloat16* __restrict__ dy, const __nv_bfloat16* __restrict__ x,
    const float* __restrict__ gamma, const float* __restrict__ mean, const float* __restrict__ rstd,
    __nv_bfloat16* __restrict__ dx, float* __restrict__ dgamma, float* __restrict__ dbeta,
    long long N, long long C, long long S, bool training) {
    gradients(dy, x, gamma, mean, rstd, dx, dgamma, dbeta, N, C, S, training);
}
