// Mean and variance in one pass (Welford), of parts that merge (Chan).
#pragma once
#include "lab.cuh"

struct Moments {
    float count, mean, squares;  // squares: the sum of (value - mean)^2
};

constexpr Moments kNoMoments = {0.0f, 0.0f, 0.0f};

// Never subtracts two large sums, so a mean far from zero costs no digits.
__device__ __forceinline__ void include(Moments& m, float value) {
    m.count += 1.0f;
    const float delta = value - m.mean;
    m.mean += delta / m.count;
    m.squares += delta * (value - m.mean);
}

struct MergeMoments {
    __device__ Moments operator()(Moments a, Moments b) const {
        const float count = a.count + b.count;
        if (count == 0.0f) return a;
        const float delta = b.mean - a.mean, share = b.count / count;
        return {count, a.mean + delta * share,
                a.squares + b.squares + delta * delta * a.count * share};
    }
};

__device__ __forceinline__ Moments shuffle_xor(Moments m, int bits) {
    return {shuffle_xor(m.count, bits), shuffle_xor(m.mean, bits), shuffle_xor(m.squares, bits)};
}
