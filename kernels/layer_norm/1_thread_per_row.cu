// Layer norm, rung 1 of 4: one thread per row, three passes.
// Mean, variance, result: each pass reads the row again, and the 32 rows of a warp lie `cols`
// apart, so each request touches 32 sectors.
//
// x, y [rows, cols], gamma, beta [cols] or null, mean, rstd [rows], all f32
// launch: grid (ceil(rows / 256)), block (256)
// Counter: read global.x sectors/request = 32
// Counter: read global.x lanes/output = 3
#include "lab.cuh"

extern "C" __global__ void layer_norm_1_thread_per_row(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, long long rows,
    long long cols, float eps) {
    const long long row = global_thread();
    if (row >= rows) return;
    const float* x_row = x + row * cols;
    float* y_row = y + row * cols;

    float sum = 0.0f;
    for (long long c = 0; c < cols; ++c) sum += x_row[c];
    const float row_mean = sum / cols;
    float squares = 0.0f;
    for (long long c = 0; c < cols; ++c) {
        const float centred = x_row[c] - row_mean;
        squares += centred * centred;
    }
    const float row_rstd = rsqrtf(squares / cols + eps);
    for (long long c = 0; c < cols; ++c) {
        const float normal = (x_row[c] - row_mean) * row_rstd;
        y_row[c] = normal * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f);
    }
    mean[row] = row_mean;
    rstd[row] = row_rstd;
}
