// Cross-entropy with class probabilities, rung 2 of 2: one block per row, one pass.
// All four sums of a row merge: scores and targets are read once each, by neighbouring threads.
//
// x, target [N, C, inner] f32, weight [C] f32 or null, rows = N * inner
// losses, pulls (the sums of weight and target), log_sums [rows] f32; out [1] f32
// launch: grid (anything up to rows), block (whole warps)
// launch of reduce: grid (1), block (whole warps), for a sum or a mean
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/input = 1
// Counter: read global.target lanes/input = 1
#include "lab.cuh"
#include "loss.cuh"
#include "online.cuh"

extern "C" __global__ void soft_cross_entropy_2_online(
    const float* __restrict__ x, const float* __restrict__ target,
    const float* __restrict__ weight, float* __restrict__ losses, float* __restrict__ pulls,
    float* __restrict__ log_sums, long long rows, long long C, long long inner, float smoothing) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long start = row_start(row, C, inner);
        OnlineSum total = kNoSum;
        Pair aims = {0.0f, 0.0f};  // of weight and target, and of these and the score
        for (long long c = threadIdx.x; c < C; c += blockDim.x) {
            const float score = x[start + c * inner];
            const float aim = soft_aim(target[start + c * inner], weight, c, C, smoothing);
            total = MergeSums()(total, {score, 1.0f});
            aims = AddPairs()(aims, {aim, aim * score});
        }
        total = block_all_reduce(total, kNoSum, MergeSums());
        aims = block_all_reduce(aims, {0.0f, 0.0f}, AddPairs());
        if (threadIdx.x == 0) {
            const float log_sum = total.highest + logf(total.sum);
            losses[row] = aims.first * log_sum - aims.second;
            pulls[row] = aims.first;
            log_sums[row] = log_sum;
        }
    }
}

extern "C" __global__ void soft_cross_entropy_2_online_reduce(const float* __restrict__ losses,
                                                              float* __restrict__ out,
                                                              long long rows, bool mean) {
    reduce_losses(losses, nullptr, out, rows, mean);
}
