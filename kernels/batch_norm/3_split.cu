// Batch norm in training, rung 3 of 3: several blocks per channel, plane by plane, float4.
// Networks have 64 channels where a device has over 100 multiprocessors. `splits` blocks share a
// channel's images and leave moments; a short kernel merges them and folds everything into
// y = a x + b; a third gives every plane a block. A block walks whole planes, so no thread divides
// to find its element, and requests carry 16 bytes a lane where a plane is aligned.
//
// x, y [N, C, S] f32 (S: all spatial sizes), gamma, beta [C] or null, mean, rstd [C]
// running_mean, running_var [C] or null: moved by `momentum` towards this batch's
// partial [3, C, splits] f32: count, mean, squares; factors [2, C] f32: a, b
// launch: grid (C, splits), block (whole warps)
// launch of finish: grid (ceil(C / 256)), block (256)
// launch of normalise: grid (anything up to N C), block (anything)
// Counter: read global.x sectors/request = 16
// Counter: read global.x lanes/output = 0.25
// Counter: write global.partial lanes/block = 3
// Counter of normalise: read global.x lanes/output = 0.25
// Counter of normalise: write global.y sectors/request = 16
#include "lab.cuh"
#include "moments.cuh"
#include "planes.cuh"

extern "C" __global__ void batch_norm_3_split(const float* __restrict__ x,
                                              float* __restrict__ partial, long long N, long long C,
                                              long long S) {
    const long long c = blockIdx.x;
    if (c >= C) return;  // uniform in the block
    Moments moments = kNoMoments;
    for (long long n = blockIdx.y; n < N; n += gridDim.y) {
        const float* plane = x + (n * C + c) * S;
        const long long vectors = is_aligned_for_float4(plane) ? S / 4 : 0;
        for (long long v = threadIdx.x; v < vectors; v += blockDim.x) {
            const float4 four = reinterpret_cast<const float4*>(plane)[v];
            include(moments, four.x);
            include(moments, four.y);
            include(moments, four.z);
            include(moments, four.w);
        }
        for (long long i = vectors * 4 + threadIdx.x; i < S; i += blockDim.x) {
            include(moments, plane[i]);
        }
    }
    moments = block_all_reduce(moments, kNoMoments, MergeMoments());
    if (threadIdx.x == 0) {
        const long long at = c * gridDim.y + blockIdx.y, row = C * gridDim.y;
        partial[at] = moments.count;
        partial[row + at] = moments.mean;
        partial[2 * row + at] = moments.squares;
    }
}

extern "C" __global__ void batch_norm_3_split_finish(
    const float* __restrict__ partial, const float* __restrict__ gamma,
    const float* __restrict__ beta, float* __restrict__ running_mean,
    float* __restrict__ running_var, float* __restrict__ mean, float* __restrict__ rstd,
    float* __restrict__ factors, long long C, int splits, float momentum, float eps) {
    const long long c = global_thread(), row = C * splits;
    if (c >= C) return;
    Moments all = kNoMoments;
    for (int s = 0; s < splits; ++s) {
        const long long at = c * splits + s;
        all = MergeMoments()(all, {partial[at], partial[row + at], partial[2 * row + at]});
    }
    const float scale = rsqrtf(all.squares / all.count + eps);
    mean[c] = all.mean;
    rstd[c] = scale;
    factors[c] = scale * (gamma ? gamma[c] : 1.0f);
    factors[C + c] = (beta ? beta[c] : 0.0f) - all.mean * factors[c];
    if (running_mean) running_mean[c] += momentum * (all.mean - running_mean[c]);
    if (running_var) {
        running_var[c] += momentum * (all.squares / (all.count - 1.0f) - running_var[c]);
    }
}

extern "C" __global__ void batch_norm_3_split_normalise(const float* __restrict__ x,
                                                        const float* __restrict__ factors,
                                                        float* __restrict__ y, long long N,
                                                        long long C, long long S) {
    for (long long plane = blockIdx.x; plane < N * C; plane += gridDim.x) {
        const float a = factors[plane % C], b = factors[C + plane % C];
        scale_and_shift(x + plane * S, y + plane * S, S, a, b);
    }
}
