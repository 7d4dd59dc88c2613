// Which bin a number falls into, as torch.histc counts.
#pragma once
#include "lab.cuh"

// `bins` equal bins from low to high, high itself in the last; -1 for what lies outside and NaN.
__device__ __forceinline__ int bin_of(float value, float low, float high, int bins) {
    if (!(value >= low && value <= high)) return -1;
    const int bin = static_cast<int>((value - low) * bins / (high - low));
    return min(bin, bins - 1);
}
