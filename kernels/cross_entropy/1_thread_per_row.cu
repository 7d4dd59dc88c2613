// Cross-entropy, rung 1 of 2: one thread per row, two passes.
// The loss is minus the log softmax at the target class: highest score, then sum of exponentials,
// then one number. No probability is written. The 32 rows of a warp lie C scores apart, so each
// request touches 32 sectors.
//
// x [N, C, inner] f32, target [N, inner] i64, weight [C] f32 or null, rows = N * inner
// losses, weights, log_sums [rows] f32; out [2] f32: the loss, the sum of the rows' weights
// launch: grid (ceil(rows / 256)), block (256)
// launch of reduce: grid (1), block (whole warps), for a sum or a mean
// Counter: read global.x sectors/request = 32
// Counter: read global.x lanes/input = 2
#include "lab.cuh"
#include "loss.cuh"

extern "C" __global__ void cross_entropy_1_thread_per_row(
    const float* __restrict__ x, const long long* __restrict__ target,
    const float* __restrict__ weight, float* __restrict__ losses, float* __restrict__ weights,
    float* __restrict__ log_sums, long long rows, long long C, long long inner, Loss loss) {
    const long long row = global_thread();
    if (row >= rows) return;
    const float* x_row = x + row_start(row, C, inner);
    const long long row_target = target[row];

    float highest = kLowestFloat;
    for (long long c = 0; c < C; ++c) highest = fmaxf(highest, x_row[c * inner]);
    float sum = 0.0f, scores = 0.0f, target_score = 0.0f;
    for (long long c = 0; c < C; ++c) {
        const float score = x_row[c * inner];
        sum += expf(score - highest);
        if (loss.smoothing > 0.0f) scores += score * (weight ? weight[c] : 1.0f);
        if (c == row_target) target_score = score;
    }
    const float log_sum = highest + logf(sum);
    const float row_weight = target_weight(row_target, weight, C, loss);
    const bool counts = row_target != loss.ignore_index;
    losses[row] = counts ? row_loss(log_sum, target_score, row_weight, scores, C, loss) : 0.0f;
    weights[row] = row_weight;
    log_sums[row] = log_sum;
}

extern "C" __global__ void cross_entropy_1_thread_per_row_reduce(const float* __restrict__ losses,
                                                                 const float* __restrict__ weights,
                                                                 float* __restrict__ out,
                                                                 long long rows, bool mean) {
    reduce_losses(losses, weights, out, rows, mean);
}
