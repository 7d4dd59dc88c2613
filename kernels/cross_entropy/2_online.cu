// Cross-entropy, rung 2 of 2: one block per row, one pass.
// As in softmax, highest score and sum of exponentials merge, and here nothing else is needed of
// the row: each score is read once, by neighbouring threads.
//
// x [N, C, inner] f32, target [N, inner] i64, weight [C] f32 or null, rows = N * inner
// losses, weights, log_sums [rows] f32; out [2] f32: the loss, the sum of the rows' weights
// launch: grid (anything up to rows), block (whole warps)
// launch of reduce, for a sum or a mean: grid (1), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/input = 1
#include "lab.cuh"
#include "loss.cuh"

struct OnlineSum {
    float highest, sum, scores, target_score;  // sum: of exp(score - highest)
};
__device__ __forceinline__ OnlineSum shuffle_xor(OnlineSum s, int bits) {
    return {shuffle_xor(s.highest, bits), shuffle_xor(s.sum, bits), shuffle_xor(s.scores, bits),
            shuffle_xor(s.target_score, bits)};
}
struct MergeSums {
    __device__ OnlineSum operator()(OnlineSum a, OnlineSum b) const {
        const float highest = fmaxf(a.highest, b.highest);
        return {highest, a.sum * expf(a.highest - highest) + b.sum * expf(b.highest - highest),
                a.scores + b.scores, a.target_score + b.target_score};
    }
};

extern "C" __global__ void cross_entropy_2_online(
    const float* __restrict__ x, const long long* __restrict__ target,
    const float* __restrict__ weight, float* __restrict__ losses, float* __restrict__ weights,
    float* __restrict__ log_sums, long long rows, long long C, long long inner, Loss loss) {
    const OnlineSum nothing = {kLowestFloat, 0.0f, 0.0f, 0.0f};
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* x_row = x + row_start(row, C, inner);
        const long long row_target = target[row];

        OnlineSum total = nothing;
        for (long long c = threadIdx.x; c < C; c += blockDim.x) {
            const float score = x_row[c * inner];
            const bool smooth = loss.smoothing > 0.0f;
            total = MergeSums()(total, {score, 1.0f,
                                        smooth ? score * (weight ? weight[c] : 1.0f) : 0.0f,
                                        c == row_target ? score : 0.0f});
        }
        total = block_all_reduce(total, nothing, MergeSums());
        if (threadIdx.x == 0) {
            const float log_sum = total.highest + logf(total.sum);
            const float row_weight = target_weight(row_target, weight, C, loss);
            const float value =
                row_loss(log_sum, total.target_score, row_weight, total.scores, C, loss);
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
