// Squeeze-excite, rung 3 of 3: wide where the bytes are, narrow where they are not.
// Nearly all bytes are x's, read twice, and y's: mean and scaling give every plane a block, with
// float4, so that all of a device works on them. Both small products share one launch between.
//
// x, y [N, C, S], mean, gate [N, C], w1 [R, C], b1 [R], w2 [C, R], b2 [C] f32; biases may be null
// launch: grid (anything up to N C), block (whole warps)
// launch of gates: grid (anything up to N), block (whole warps), shared memory (R) floats
// launch of scale: grid (anything up to N C), block (anything)
// Counter: read global.x bytes/lane = 16
// Counter: read global.x sectors/request = 16
// Counter of gates: read global.w1 sectors/request = 4
// Counter of scale: read global.x sectors/request = 16
// Counter of scale: write global.y sectors/request = 16
#include "lab.cuh"
#include "planes.cuh"
#include "squeeze_excite.cuh"

extern "C" __global__ void squeeze_excite_3_three_launches(const float* __restrict__ x,
                                                           float* __restrict__ mean,
                                                           long long planes, long long S) {
    for (long long plane = blockIdx.x; plane < planes; plane += gridDim.x) {
        const float* from = x + plane * S;
        const long long vectors = is_aligned_for_float4(from) ? S / 4 : 0;  // uniform in the block
        float sum = 0.0f;
        for (long long v = threadIdx.x; v < vectors; v += blockDim.x) {
            const float4 four = reinterpret_cast<const float4*>(from)[v];
            sum += (four.x + four.y) + (four.z + four.w);
        }
        for (long long i = vectors * 4 + threadIdx.x; i < S; i += blockDim.x) sum += from[i];
        sum = block_all_reduce(sum, 0.0f, Add());
        if (threadIdx.x == 0) mean[plane] = sum / S;
    }
}

extern "C" __global__ void squeeze_excite_3_three_launches_gates(
    const float* __restrict__ mean, const float* __restrict__ w1, const float* __restrict__ b1,
    const float* __restrict__ w2, const float* __restrict__ b2, float* __restrict__ gate,
    long long N, long long C, long long R, bool silu) {
    extern __shared__ float hidden[];
    for (long long n = blockIdx.x; n < N; n += gridDim.x) {
        small_product(w1, b1, mean + n * C, hidden, R, C, Hidden{silu});
        small_product(w2, b2, hidden, gate + n * C, C, R, Sigmoid());
    }
}

extern "C" __global__ void squeeze_excite_3_three_launches_scale(const float* __restrict__ x,
                                                                 const float* __restrict__ gate,
                                                                 float* __restrict__ y,
                                                                 long long planes, long long S) {
    for (long long plane = blockIdx.x; plane < planes; plane += gridDim.x) {
        scale_and_shift(x + plane * S, y + plane * S, S, gate[plane], 0.0f);
    }
}
