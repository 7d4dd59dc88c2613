// Batch norm backward, rung 2 of 2: several blocks per channel.
// As in the forward ladder: `splits` blocks share a channel's sums, a short kernel adds them up,
// and a third writes dx with one thread per element. The traffic is rung 1's, spread over the
// device.
//
// dy, x, dx [N, C, S], gamma [C] or null, mean, rstd, dgamma, dbeta [C], all f32
// partial [2, C, splits] f32: sums of dy and of dy n
// launch: grid (C, splits), block (whole warps)
// launch of finish: grid (ceil(C / 256)), block (256)
// launch of input: grid (anything), block (anything)
// Counter: read global.x lanes/output = 1
// Counter: write global.partial lanes/block = 2
// Counter of input: read global.x lanes/output = 1
// Counter of input: read global.x sectors/request = 4
#include "lab.cuh"
#include "pair.cuh"

extern "C" __global__ void batch_norm_backward_2_split(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ mean,
    const float* __restrict__ rstd, float* __restrict__ partial, long long N, long long C,
    long long S) {
    const long long c = blockIdx.x, threads = static_cast<long long>(gridDim.y) * blockDim.x;
    if (c >= C) return;  // uniform in the block
    Pair sums = {0.0f, 0.0f};
    for (long long i = blockIdx.y * blockDim.x + threadIdx.x; i < N * S; i += threads) {
        const long long at = channel_offset(i, c, C, S);
        sums = AddPairs()(sums, {dy[at], dy[at] * (x[at] - mean[c]) * rstd[c]});
    }
    sums = block_all_reduce(sums, {0.0f, 0.0f}, AddPairs());
    if (threadIdx.x == 0) {
        const long long at = c * gridDim.y + blockIdx.y;
        partial[at] = sums.first;
        partial[C * gridDim.y + at] = sums.second;
    }
}

extern "C" __global__ void batch_norm_backward_2_split_finish(const float* __restrict__ partial,
                                                              float* __restrict__ dgamma,
                                                              float* __restrict__ dbeta,
                                                              long long C, int splits) {
    const long long c = global_thread();
    if (c >= C) return;
    Pair sums = {0.0f, 0.0f};
    for (int s = 0; s < splits; ++s) {
        const long long at = c * splits + s;
        sums = AddPairs()(sums, {partial[at], partial[C * splits + at]});
    }
    dbeta[c] = sums.first;
    dgamma[c] = sums.second;
}

extern "C" __global__ void batch_norm_backward_2_split_input(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ gamma,
    const float* __restrict__ mean, const float* __restrict__ rstd,
    const float* __restrict__ dgamma, const float* __restrict__ dbeta, float* __restrict__ dx,
    long long N, long long C, long long S, bool training) {
    const float share = training ? 1.0f / (N * S) : 0.0f;
    for (long long i = global_thread(); i < N * C * S; i += grid_threads()) {
        const long long c = i / S % C;
        const float normal = (x[i] - mean[c]) * rstd[c];
        const float scale = rstd[c] * (gamma ? gamma[c] : 1.0f);
        dx[i] = scale * (dy[i] - dbeta[c] * share - normal * dgamma[c] * share);
    }
}
