// Convolution + bias + batch norm + ReLU, rung 2 of 3: one kernel after the convolution.
// Bias and batch norm are one multiplication and one addition per channel, so all three steps fit
// between one read and one write: a third of rung 1's traffic.
//
// raw [N, K, P, Q], the convolution without its bias; bias, gamma, beta [K] or null;
// mean, variance [K]  ->  y [N, K, P, Q] f32        launch: grid (ceil(N K P Q / 256)), block (256)
// Counter: read global.raw lanes/output = 1
// Counter: write global.y lanes/output = 1
// Counter: read global.y lanes/output = 0
#include "conv.cuh"

extern "C" __global__ void conv_bn_relu_2_one_pass(
    const float* __restrict__ raw, const float* __restrict__ bias, const float* __restrict__ gamma,
    const float* __restrict__ beta, const float* __restrict__ mean,
    const float* __restrict__ variance, float epsilon, float* __restrict__ y, int channels,
    long long plane, long long n) {
    const long long i = global_thread();
    if (i >= n) return;
    const int k = i / plane % channels;
    const Affine affine = batch_norm_of(k, bias, gamma, beta, mean, variance, epsilon);
    const float v = raw[i] * affine.scale + affine.shift;
    y[i] = v < 0.0f ? 0.0f : v;  // a NaN stays one
}
