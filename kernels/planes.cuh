// What a block does to a run of neighbouring floats, such as a plane of an image.
#pragma once
#include "lab.cuh"

// to[i] = a from[i] + b, four at a time where both are aligned.
__device__ __forceinline__ void scale_and_shift(const float* from, float* to, long long count,
                                                float a, float b) {
    const bool aligned = is_aligned_for_float4(from) && is_aligned_for_float4(to);
    const long long vectors = aligned ? count / 4 : 0;  // uniform in the block
    for (long long v = threadIdx.x; v < vectors; v += blockDim.x) {
        const float4 four = reinterpret_cast<const float4*>(from)[v];
        reinterpret_cast<float4*>(to)[v] =
            make_float4(a * four.x + b, a * four.y + b, a * four.z + b, a * four.w + b);
    }
    for (long long i = vectors * 4 + threadIdx.x; i < count; i += blockDim.x) {
        to[i] = a * from[i] + b;
    }
}
