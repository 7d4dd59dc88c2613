// Softmax, rung 2 of 5: one block per row, reductions by shuffles.
// Neighbouring threads read neighbouring columns, so a request's 32 lanes fill 4 sectors where
// rung 1 touched 32. The row's highest value and sum cross the block through registers and 32
// floats of shared memory. Still three passes over x.
//
// x, y [outer, cols, inner] f32, rows = outer * inner; log: y is the logarithm of the softmax
// launch: grid (anything up to rows), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 3
#include "lab.cuh"

extern "C" __global__ void softmax_2_block_per_row(const float* __restrict__ x,
                                                   float* __restrict__ y, long long rows,
                                                   long long cols, long long inner, bool log) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long start = row_start(row, cols, inner);
        const float* x_row = x + start;
        float* y_row = y + start;

        float highest = kLowestFloat;
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            highest = fmaxf(highest, x_row[c * inner]);
        }
        highest = block_all_reduce(highest, kLowestFloat, Larger());
        float sum = 0.0f;
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            sum += expf(x_row[c * inner] - highest);
        }
        sum = block_all_reduce(sum, 0.0f, Add());
        const float log_sum = logf(sum);
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float shifted = x_row[c * inner] - highest;
            y_row[c * inner] = log ? shifted - log_sum : expf(shifted) / sum;
        }
    }
}
