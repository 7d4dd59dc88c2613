// What a block does to a run of neighbours, such as a plane of an image.
#pragma once
#include "lab.cuh"
#include "narrow.cuh"

// to[i] = a from[i] + b, four at a time where both are aligned.
template <class T>
__device__ __forceinline__ void scale_and_shift(const T* from, T* to, long long count, float a,
                                                float b) {
    const bool aligned = is_aligned(from, 4 * sizeof(T)) && is_aligned(to, 4 * sizeof(T));
    const long long vectors = aligned ? count / 4 : 0;  // uniform in the block
    for (long long v = threadIdx.x; v < vectors; v += blockDim.x) {
        const float4 four = four_at(from, v);
        put_four(make_float4(a * four.x + b, a * four.y + b, a * four.z + b, a * four.w + b), to,
                 v);
    }
    for (long long i = vectors * 4 + threadIdx.x; i < count; i += blockDim.x) {
        to[i] = T(a * static_cast<float>(from[i]) + b);
    }
}
