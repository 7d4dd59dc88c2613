// Batch norm in training, rung 1 of 3: one block per channel, mean before variance.
// A channel is a plane of every image. The block reads it three times: for the mean, for the
// variance around it, and for the result. As many blocks as channels run, however large the batch.
//
// x, y [N, C, S] f32 (S: all spatial sizes), gamma, beta [C] or null, mean, rstd [C]
// running_mean, running_var [C] or null: moved by `momentum` towards this batch's
// launch: grid (anything up to C), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 3
#include "lab.cuh"

extern "C" __global__ void batch_norm_1_two_pass(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    float* __restrict__ running_mean, float* __restrict__ running_var, float* __restrict__ y,
    float* __restrict__ mean, float* __restrict__ rstd, long long N, long long C, long long S,
    float momentum, float eps) {
    const float count = N * S;
    for (long long c = blockIdx.x; c < C; c += gridDim.x) {
        float sum = 0.0f;
        for (long long i = threadIdx.x; i < N * S; i += blockDim.x) {
            sum += x[channel_offset(i, c, C, S)];
        }
        const float centre = block_all_reduce(sum, 0.0f, Add()) / count;
        float squares = 0.0f;
        for (long long i = threadIdx.x; i < N * S; i += blockDim.x) {
            const float centred = x[channel_offset(i, c, C, S)] - centre;
            squares += centred * centred;
        }
        squares = block_all_reduce(squares, 0.0f, Add());
        const float scale = rsqrtf(squares / count + eps);
        for (long long i = threadIdx.x; i < N * S; i += blockDim.x) {
            const long long at = channel_offset(i, c, C, S);
            const float normal = (x[at] - centre) * scale;
            y[at] = normal * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f);
        }
        if (threadIdx.x == 0) {
            mean[c] = centre;
            rstd[c] = scale;
            if (running_mean) running_mean[c] += momentum * (centre - running_mean[c]);
            if (running_var) {  // the unbiased variance: over count - 1
                running_var[c] += momentum * (squares / (count - 1.0f) - running_var[c]);
            }
        }
    }
}
