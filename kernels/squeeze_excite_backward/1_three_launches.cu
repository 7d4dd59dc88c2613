// Squeeze-excite backward, rung 1 of 1: wide where the bytes are, as forward.
// x is read twice forward, so its gradient has two parts: dy times the gate, and an equal share of
// the mean's gradient. With g = sigmoid(e), a plane's sum of dy x is the gradient of g, and that
// times g (1 - g) the gradient of e. A block per plane sums and writes; the two small products
// between share a launch. The gradients of the weights are products of what is left: de^T hidden
// and dr^T mean; those of the biases are sums of de and dr over n.
//
// dy, x, dx [N, C, S], gate, de, shift [N, C], slope, dr [N, R], w1 [R, C], w2 [C, R] f32
// slope is the activation's at r, what the first small layer made: 0 or 1 for ReLU, any number for
// SiLU; shift is the mean's gradient over S
// launch: grid (anything up to N C), block (whole warps)
// launch of gates: grid (anything up to N), block (anything), shared memory (R) floats
// launch of input: grid (anything up to N C), block (anything)
// Counter: read global.x sectors/request = 16
// Counter: read global.dy sectors/request = 16
// Counter of gates: read global.w1 sectors/request = 4
// Counter of gates: read global.w2 sectors/request = 4
// Counter of input: read global.dy sectors/request = 16
// Counter of input: write global.dx sectors/request = 16
#include "lab.cuh"
#include "planes.cuh"

extern "C" __global__ void squeeze_excite_backward_1_three_launches(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ gate,
    float* __restrict__ de, long long planes, long long S) {
    for (long long plane = blockIdx.x; plane < planes; plane += gridDim.x) {
        const float *up = dy + plane * S, *image = x + plane * S;
        const bool aligned = is_aligned_for_float4(up) && is_aligned_for_float4(image);
        const long long vectors = aligned ? S / 4 : 0;  // uniform in the block
        float sum = 0.0f;
        for (long long v = threadIdx.x; v < vectors; v += blockDim.x) {
            const float4 a = reinterpret_cast<const float4*>(up)[v];
            const float4 b = reinterpret_cast<const float4*>(image)[v];
            sum += (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
        }
        for (long long i = vectors * 4 + threadIdx.x; i < S; i += blockDim.x) {
            sum += up[i] * image[i];
        }
        sum = block_all_reduce(sum, 0.0f, Add());
        if (threadIdx.x == 0) de[plane] = sum * gate[plane] * (1.0f - gate[plane]);
    }
}

extern "C" __global__ void squeeze_excite_backward_1_three_launches_gates(
    const float* __restrict__ de, const float* __restrict__ slope, const float* __restrict__ w1,
    const float* __restrict__ w2, float* __restrict__ dr, float* __restrict__ shift, long long N,
    long long C, long long S, long long R) {
    extern __shared__ float reduced[];
    for (long long n = blockIdx.x; n < N; n += gridDim.x) {
        for (long long r = threadIdx.x; r < R; r += blockDim.x) {  // lanes: neighbours of a row
            float sum = 0.0f;
            for (long long c = 0; c < C; ++c) sum += w2[c * R + r] * de[n * C + c];
            reduced[r] = dr[n * R + r] = slope[n * R + r] * sum;
        }
        __syncthreads();
        for (long long c = threadIdx.x; c < C; c += blockDim.x) {
            float sum = 0.0f;
            for (long long r = 0; r < R; ++r) sum += w1[r * C + c] * reduced[r];
            shift[n * C + c] = sum / S;
        }
        __syncthreads();  // the next image's gradients go where these are still read
    }
}

extern "C" __global__ void squeeze_excite_backward_1_three_launches_input(
    const float* __restrict__ dy, const float* __restrict__ gate, const float* __restrict__ shift,
    float* __restrict__ dx, long long planes, long long S) {
    for (long long plane = blockIdx.x; plane < planes; plane += gridDim.x) {
        scale_and_shift(dy + plane * S, dx + plane * S, S, gate[plane], shift[plane]);
    }
}
