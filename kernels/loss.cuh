// Cross-entropy's arithmetic for one row, and the sum over rows.
#pragma once
#include "lab.cuh"
#include "pair.cuh"

// What the loss is asked for. A row whose target is ignore_index counts nothing.
struct Loss {
    long long ignore_index;
    float smoothing;            // the share of the target spread evenly over all classes
    float class_weights_total;  // the sum of all class weights; the number of classes without
};

// The weight of the row's target, 0 for a row to ignore. Any other target outside [0, C) traps.
__device__ __forceinline__ float target_weight(long long target, const float* weight, long long C,
                                               Loss loss) {
    if (target == loss.ignore_index) return 0.0f;
    if (target < 0 || target >= C) __trap();
    return weight ? weight[target] : 1.0f;
}

// scores: the sum of weight times score over the classes.
__device__ __forceinline__ float row_loss(float log_sum, float target_score, float weight,
                                          float scores, long long C, Loss loss) {
    const float even = (loss.class_weights_total * log_sum - scores) / C;
    return (1.0f - loss.smoothing) * weight * (log_sum - target_score) + loss.smoothing * even;
}

// out[0]: the sum of the losses, over the sum of the weights for the mean; out[1]: that sum. With
// null weights every row counts 1, and there is no out[1].
__device__ __forceinline__ void reduce_losses(const float* losses, const float* weights, float* out,
                                              long long rows, bool mean) {
    Pair sums = {0.0f, 0.0f};
    for (long long row = threadIdx.x; row < rows; row += blockDim.x) {
        sums = AddPairs()(sums, {losses[row], weights ? weights[row] : 1.0f});
    }
    sums = block_all_reduce(sums, {0.0f, 0.0f}, AddPairs());
    if (threadIdx.x == 0) {
        out[0] = mean ? sums.first / sums.second : sums.first;
        if (weights) out[1] = sums.second;
    }
}

// The gradient of the row's loss with respect to one score.
__device__ __forceinline__ float score_gradient(float score, float log_sum, bool is_target,
                                                float target_weight, float class_weight,
                                                long long C, Loss loss) {
    const float sharp = (1.0f - loss.smoothing) * target_weight, even = loss.smoothing / C;
    const float probability = expf(score - log_sum);
    return (sharp + even * loss.class_weights_total) * probability - even * class_weight -
           (is_target ? sharp : 0.0f);
}

// Weight and target of one class, where the target is a probability: what draws the score up.
__device__ __forceinline__ float soft_aim(float target, const float* weight, long long c,
                                          long long C, float smoothing) {
    return ((1.0f - smoothing) * target + smoothing / C) * (weight ? weight[c] : 1.0f);
}
