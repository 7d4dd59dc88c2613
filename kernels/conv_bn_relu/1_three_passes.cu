// Convolution + bias + batch norm + ReLU, rung 1 of 3: three kernels after the convolution.
// As a model is written: each step reads all of y and writes all of y, for an addition, for a
// multiplication and an addition, for a comparison. The arithmetic is nothing, the traffic is all.
//
// raw [N, K, P, Q], the convolution without its bias; bias, gamma, beta [K] or null;
// mean, variance [K]  ->  y [N, K, P, Q] f32
// launch: grid (ceil(N K P Q / 256)), block (256), for each kernel: this, normalise, rectify
// Counter: read global.raw lanes/output = 1
// Counter: write global.y lanes/output = 1
// Counter of normalise: read global.y lanes/output = 1
// Counter of normalise: write global.y lanes/output = 1
// Counter of rectify: read global.y lanes/output = 1
// Counter of rectify: write global.y lanes/output = 1
#include "conv.cuh"

extern "C" __global__ void conv_bn_relu_1_three_passes(const float* __restrict__ raw,
                                                       const float* __restrict__ bias,
                                                       float* __restrict__ y, int channels,
                                                       long long plane, long long n) {
    const long long i = global_thread();
    if (i >= n) return;
    const int k = i / plane % channels;
    y[i] = bias ? raw[i] + bias[k] : raw[i];
}

extern "C" __global__ void conv_bn_relu_1_three_passes_normalise(
    float* y, const float* __restrict__ gamma, const float* __restrict__ beta,
    const float* __restrict__ mean, const float* __restrict__ variance, float epsilon, int channels,
    long long plane, long long n) {
    const long long i = global_thread();
    if (i >= n) return;
    const int k = i / plane % channels;
    const float normal = (y[i] - mean[k]) / sqrtf(variance[k] + epsilon);
    y[i] = normal * (gamma ? gamma[k] : 1.0f) + (beta ? beta[k] : 0.0f);
}

extern "C" __global__ void conv_bn_relu_1_three_passes_rectify(float* y, long long n) {
    const long long i = global_thread();
    if (i < n) y[i] = y[i] < 0.0f ? 0.0f : y[i];  // a NaN stays one
}
