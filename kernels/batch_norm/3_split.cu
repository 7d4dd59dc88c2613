// Batch norm in training, rung 3 of 3: several blocks per channel.
// Networks have 64 channels where a device has over 100 multiprocessors. `splits` blocks take a
// share of each channel and leave moments; a short kernel merges them, and a third writes y with
// one thread per element, whatever the channel. The traffic is rung 2's, spread over the device.
//
// x, y [N, C, S] f32 (S: all spatial sizes), gamma, beta [C] or null, mean, rstd [C]
// running_mean, running_var [C] or null: moved by `momentum` towards this batch's
// partial [3, C, splits] f32: count, mean, squares
// launch: grid (C, splits), block (whole warps)
// launch of finish: grid (ceil(C / 256)), block (256)
// launch of normalise: grid (anything), block (anything)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 1
// Counter: write global.partial lanes/block = 3
// Counter of normalise: read global.x lanes/output = 1
#include "lab.cuh"
#include "moments.cuh"

extern "C" __global__ void batch_norm_3_split(const float* __restrict__ x,
                                              float* __restrict__ partial, long long N, long long C,
                                              long long S) {
    const long long c = blockIdx.x, threads = static_cast<long long>(gridDim.y) * blockDim.x;
    if (c >= C) return;  // uniform in the block
    Moments moments = kNoMoments;
    for (long long i = blockIdx.y * blockDim.x + threadIdx.x; i < N * S; i += threads) {
        include(moments, x[channel_offset(i, c, C, S)]);
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
    const float* __restrict__ partial, float* __restrict__ running_mean,
    float* __restrict__ running_var, float* __restrict__ mean, float* __restrict__ rstd,
    long long C, int splits, float momentum, float eps) {
    const long long c = global_thread(), row = C * splits;
    if (c >= C) return;
    Moments all = kNoMoments;
    for (int s = 0; s < splits; ++s) {
        const long long at = c * splits + s;
        all = MergeMoments()(all, {partial[at], partial[row + at], partial[2 * row + at]});
    }
    mean[c] = all.mean;
    rstd[c] = rsqrtf(all.squares / all.count + eps);
    if (running_mean) running_mean[c] += momentum * (all.mean - running_mean[c]);
    if (running_var) {
        running_var[c] += momentum * (all.squares / (all.count - 1.0f) - running_var[c]);
    }
}

extern "C" __global__ void batch_norm_3_split_normalise(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    const float* __restrict__ mean, const float* __restrict__ rstd, float* __restrict__ y,
    long long N, long long C, long long S) {
    for (long long i = global_thread(); i < N * C * S; i += grid_threads()) {
        const long long c = i / S % C;
        const float normal = (x[i] - mean[c]) * rstd[c];
        y[i] = normal * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f);
    }
}
