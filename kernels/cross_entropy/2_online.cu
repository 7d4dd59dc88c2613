// Cross-entropy, rung 2 of 2: one block per row, one pass.
// As in softmax, highest score and sum of exponentials merge, and here nothing else is needed of
// the row: each score is read once, by neighbouring threads.
//
// x [N, C, inner] f32, target [N, inner] i64, weight [C] f32 or null, rows = N * inner
// losses, weights, log_sums [rows] f32; out [2] f32: the loss, the sum of the rows' weights
// launch: grid (anything up to rows), block (whole warps)
// launch of reduce: grid (1), block (whole warps), for a sum or a mean
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/input = 1
#include "lab.cuh"
#include "loss.cuh"
#include "online.cuh"

extern "C" __global__ void cross_entropy_2_online(
    const float* __restrict__ x, const long long* __restrict__ target,
    const float* __restrict__ weight, float* __restrict__ losses, float* __restrict__ weights,
    float* __restrict__ log_sums, long long rows, long long C, long long inner, Loss loss) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* x_row = x + row_start(row, C, inner);
        const long long row_target = target[row];

        OnlineSum total = kNoSum;
        Pair scores = {0.0f, 0.0f};  // of all classes by weight, and the target's
        for (long long c = threadIdx.x; c < C; c += blockDim.x) {
            const float score = x_row[c * inner];
            total = MergeSums()(total, {score, 1.0f});
            if (loss.smoothing > 0.0f) scores.first += score * (weight ? weight[c] : 1.0f);
            if (c == row_target) scores.second = score;
        }
        total = block_all_reduce(total, kNoSum, MergeSums());
        scores = block_all_reduce(scores, {0.0f, 0.0f}, AddPairs());
        if (threadIdx.x == 0) {
            const float log_sum = total.highest + logf(total.sum);
            const float row_weight = target_weight(row_target, weight, C, loss);
            const float value =
                row_loss(log_sum, scores.second, row_weight, scores.first, C, loss);
            losses[row] = row_target != loss.ignore_index ? value : 0.0f;
            weights[row] = row_weight;
            log_sums[row] = log_sum;
        }
    }
}

extern "C" __global__ void cross_entropy_2_online_reduce(const float* __restrict__ losses,
                                                         const float* __restrict__ weights,
                                                         float* __restrict__ out, long long rows,
                                                         bool mean) {
    reduce_losses(losses, weights, out, rows, mean);
}
