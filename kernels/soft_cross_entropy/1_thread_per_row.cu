// Cross-entropy with class probabilities, rung 1 of 2: one thread per row, two passes.
// The target is a probability for every class, so the loss is minus the sum of weight, target and
// log softmax: the logarithm of the row's sum, times what the targets weigh together, less the sum
// of weight, target and score. Rows lie C scores apart: 32 sectors a request, of both arrays.
//
// x, target [N, C, inner] f32, weight [C] f32 or null, rows = N * inner
// losses, pulls (the sums of weight and target), log_sums [rows] f32; out [1] f32
// launch: grid (ceil(rows / 256)), block (256)
// launch of reduce: grid (1), block (whole warps), for a sum or a mean
// Counter: read global.x sectors/request = 32
// Counter: read global.x lanes/input = 2
// Counter: read global.target lanes/input = 1
#include "lab.cuh"
#include "loss.cuh"

extern "C" __global__ void soft_cross_entropy_1_thread_per_row(
    const float* __restrict__ x, const float* __restrict__ target,
    const float* __restrict__ weight, float* __restrict__ losses, float* __restrict__ pulls,
    float* __restrict__ log_sums, long long rows, long long C, long long inner, float smoothing) {
    const long long row = global_thread();
    if (row >= rows) return;
    const long long start = row_start(row, C, inner);

    float highest = kLowestFloat;
    for (long long c = 0; c < C; ++c) highest = fmaxf(highest, x[start + c * inner]);
    float sum = 0.0f, pull = 0.0f, scores = 0.0f;
    for (long long c = 0; c < C; ++c) {
        const float score = x[start + c * inner];
        const float aim = soft_aim(target[start + c * inner], weight, c, C, smoothing);
        sum += expf(score - highest);
        pull += aim;
        scores += aim * score;
    }
    const float log_sum = highest + logf(sum);
    losses[row] = pull * log_sum - scores;
    pulls[row] = pull;
    log_sums[row] = log_sum;
}

extern "C" __global__ void soft_cross_entropy_1_thread_per_row_reduce(
    const float* __restrict__ losses, float* __restrict__ out, long long rows, bool mean) {
    reduce_losses(losses, nullptr, out, rows, mean);
}
