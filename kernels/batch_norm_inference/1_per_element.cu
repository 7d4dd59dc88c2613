// Batch norm in inference, rung 1 of 2: every element on its own.
// y = (x - running_mean) / sqrt(running_var + eps) gamma + beta. Each thread divides its number by
// S to find its channel, reads that channel's four numbers and takes a square root.
//
// x, y [N, C, S] f32 (S: all spatial sizes), running_mean, running_var [C], gamma, beta [C] or null
// launch: grid (ceil(N C S / 256)), block (256)
// Counter: read global.x sectors/request = 4
// Counter: read global.* lanes/output = 5
#include "lab.cuh"

extern "C" __global__ void batch_norm_inference_1_per_element(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    const float* __restrict__ running_mean, const float* __restrict__ running_var,
    float* __restrict__ y, long long N, long long C, long long S, float eps) {
    const long long i = global_thread();
    if (i >= N * C * S) return;
    const long long c = i / S % C;
    const float normal = (x[i] - running_mean[c]) * rsqrtf(running_var[c] + eps);
    y[i] = normal * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f);
}
