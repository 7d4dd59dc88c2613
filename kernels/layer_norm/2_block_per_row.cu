// Layer norm, rung 2 of 4: one block per row, reductions by shuffles.
// Neighbouring threads read neighbouring columns: 4 sectors a request where rung 1 touched 32.
// Still three passes; the second needs the mean of the first, which crosses the block once.
//
// x, y [rows, cols], gamma, beta [cols] or null, mean, rstd [rows], all f32
// launch: grid (anything up to rows), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 3
#include "lab.cuh"

extern "C" __global__ void layer_norm_2_block_per_row(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, long long rows,
    long long cols, float eps) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* x_row = x + row * cols;
        float* y_row = y + row * cols;

        float sum = 0.0f;
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) sum += x_row[c];
        const float row_mean = block_all_reduce(sum, 0.0f, Add()) / cols;
        float squares = 0.0f;
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float centred = x_row[c] - row_mean;
            squares += centred * centred;
        }
        const float row_rstd = rsqrtf(block_all_reduce(squares, 0.0f, Add()) / cols + eps);
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float normal = (x_row[c] - row_mean) * row_rstd;
            y_row[c] = normal * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f);
        }
        if (threadIdx.x == 0) {
            mean[row] = row_mean;
            rstd[row] = row_rstd;
        }
    }
}
