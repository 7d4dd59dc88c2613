// Sum of all elements, rung 4 of 4: float4 loads, and a second launch instead of atomics.
// A quarter of rung 3's requests, and no atomic at all: each block leaves its sum in `partial`,
// which one block of a second launch of this very kernel adds up. The result no longer depends on
// the order in which blocks finish.
//
// x [n] f32, partial [blocks] f32        launch: grid (blocks), block (256), then grid (1)
// Counter: read global.x sectors/request = 16
// Counter: read global.x bytes/lane = 16
// Counter: atomic global.* lanes/input = 0
#include "lab.cuh"

extern "C" __global__ void reduction_4_vectorised(const float* __restrict__ x, float* partial,
                                                  long long n) {
    float sum = 0.0f;
    const long long vectors = is_aligned_for_float4(x) ? n / 4 : 0;
    for (long long v = global_thread(); v < vectors; v += grid_threads()) {
        const float4 four = reinterpret_cast<const float4*>(x)[v];
        sum += (four.x + four.y) + (four.z + four.w);
    }
    for (long long i = vectors * 4 + global_thread(); i < n; i += grid_threads()) sum += x[i];
    sum = block_reduce_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
