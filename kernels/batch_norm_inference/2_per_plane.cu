// Batch norm in inference, rung 2 of 2: a block per plane, the channel folded into y = a x + b.
// All elements of a plane share a channel: its a and b are computed once per thread, and what is
// left is one multiply-add per element, four elements to a float4 where the plane is aligned.
//
// x, y [N, C, S] f32 (S: all spatial sizes), running_mean, running_var [C], gamma, beta [C] or null
// launch: grid (anything up to N C), block (anything)
// Counter: read global.x bytes/lane = 16
// Counter: read global.x sectors/request = 16
// Counter: read global.* lanes/output = 0.5
#include "lab.cuh"

extern "C" __global__ void batch_norm_inference_2_per_plane(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
    float* __restrict__ y, long long N, long long C, long long S, float eps) {
    for (long long plane = blockIdx.x; plane < N * C; plane += gridDim.x) {
        const long long c = plane % C;
        const float a = rsqrtf(running_var[c] + eps) * (gamma ? gamma[c] : 1.0f);
        const float b = (beta ? beta[c] : 0.0f) - running_mean[c] * a;
        const float* from = x + plane * S;
        float* to = y + plane * S;
        const bool aligned = is_aligned_for_float4(from) && is_aligned_for_float4(to);
        const long long vectors = aligned ? S / 4 : 0;  // uniform in the block
        for (long long v = threadIdx.x; v < vectors; v += blockDim.x) {
            const float4 four = reinterpret_cast<const float4*>(from)[v];
            reinterpret_cast<float4*>(to)[v] = make_float4(a * four.x + b, a * four.y + b,
                                                           a * four.z + b, a * four.w + b);
        }
        for (long long i = vectors * 4 + threadIdx.x; i < S; i += blockDim.x) {
            to[i] = a * from[i] + b;
        }
    }
}
