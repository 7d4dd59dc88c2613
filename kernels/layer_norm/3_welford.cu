// Layer norm, rung 3 of 4: mean and variance in one pass.
// Welford's update needs no mean in advance, and two threads' moments merge: x is read twice
// instead of three times, and one reduction crosses the block instead of two.
//
// x, y [rows, cols], gamma, beta [cols] or null, mean, rstd [rows], all f32
// launch: grid (anything up to rows), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 2
#include "lab.cuh"
#include "moments.cuh"

extern "C" __global__ void layer_norm_3_welford(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, long long rows,
    long long cols, float eps) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* x_row = x + row * cols;
        float* y_row = y + row * cols;

        Moments moments = kNoMoments;
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) include(moments, x_row[c]);
        moments = block_all_reduce(moments, kNoMoments, MergeMoments());
        const float row_rstd = rsqrtf(moments.squares / cols + eps);
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float normal = (x_row[c] - moments.mean) * row_rstd;
            y_row[c] = normal * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f);
        }
        if (threadIdx.x == 0) {
            mean[row] = moments.mean;
            rstd[row] = row_rstd;
        }
    }
}
