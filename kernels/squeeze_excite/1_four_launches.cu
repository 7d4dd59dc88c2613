// Squeeze-excite, rung 1 of 3: an operation per launch.
// y = x sigmoid(w2 f(w1 mean(x) + b1) + b2), a factor per channel; f is ReLU or SiLU. Mean, two
// small products and the scaling each go through global memory, and the products give a thread a
// row of weights: the lanes of a warp read C floats apart, 32 sectors a request.
//
// x, y [N, C, S], mean, gate [N, C], hidden [N, R], w1 [R, C], b1 [R], w2 [C, R], b2 [C] f32; the
// biases may be null
// launch: grid (anything up to N C), block (whole warps)
// launch of reduce: grid (ceil(N R / 256)), block (256)
// launch of expand: grid (ceil(N C / 256)), block (256)
// launch of scale: grid (anything), block (anything)
// Counter: read global.x lanes/output = 1
// Counter of reduce: read global.w1 sectors/request = 32
// Counter of expand: read global.w2 sectors/request = 32
// Counter of scale: read global.x lanes/output = 1
#include "lab.cuh"
#include "squeeze_excite.cuh"

extern "C" __global__ void squeeze_excite_1_four_launches(const float* __restrict__ x,
                                                          float* __restrict__ mean,
                                                          long long planes, long long S) {
    for (long long plane = blockIdx.x; plane < planes; plane += gridDim.x) {
        float sum = 0.0f;
        for (long long i = threadIdx.x; i < S; i += blockDim.x) sum += x[plane * S + i];
        sum = block_all_reduce(sum, 0.0f, Add());
        if (threadIdx.x == 0) mean[plane] = sum / S;
    }
}

extern "C" __global__ void squeeze_excite_1_four_launches_reduce(
    const float* __restrict__ mean, const float* __restrict__ w1, const float* __restrict__ b1,
    float* __restrict__ hidden, long long N, long long C, long long R, bool silu) {
    const long long i = global_thread();
    if (i >= N * R) return;
    const long long n = i / R, r = i % R;
    float sum = b1 ? b1[r] : 0.0f;
    for (long long c = 0; c < C; ++c) sum += w1[r * C + c] * mean[n * C + c];
    hidden[i] = Hidden{silu}(sum);
}

extern "C" __global__ void squeeze_excite_1_four_launches_expand(
    const float* __restrict__ hidden, const float* __restrict__ w2, const float* __restrict__ b2,
    float* __restrict__ gate, long long N, long long C, long long R) {
    const long long i = global_thread();
    if (i >= N * C) return;
    const long long n = i / C, c = i % C;
    float sum = b2 ? b2[c] : 0.0f;
    for (long long r = 0; r < R; ++r) sum += w2[c * R + r] * hidden[n * R + r];
    gate[i] = 1.0f / (1.0f + expf(-sum));
}

extern "C" __global__ void squeeze_excite_1_four_launches_scale(const float* __restrict__ x,
                                                                const float* __restrict__ gate,
                                                                float* __restrict__ y,
                                                                long long planes, long long S) {
    for (long long i = global_thread(); i < planes * S; i += grid_threads()) {
        y[i] = x[i] * gate[i / S];
    }
}
