// Highest value and sum of exponentials in one pass, of parts that merge.
#pragma once
#include "lab.cuh"

struct OnlineSum {
    float highest, sum;  // sum of exp(value - highest)
};

constexpr OnlineSum kNoSum = {kLowestFloat, 0.0f};  // finite: -inf - -inf would be NaN

// Whichever sum belongs to the lower highest value is scaled down to the higher.
struct MergeSums {
    __device__ OnlineSum operator()(OnlineSum a, OnlineSum b) const {
        const float highest = fmaxf(a.highest, b.highest);
        return {highest, a.sum * expf(a.highest - highest) + b.sum * expf(b.highest - highest)};
    }
};

__device__ __forceinline__ OnlineSum shuffle_xor(OnlineSum s, int bits) {
    return {shuffle_xor(s.highest, bits), shuffle_xor(s.sum, bits)};
}
