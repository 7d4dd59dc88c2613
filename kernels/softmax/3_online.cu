// Softmax, rung 3 of 5: highest value and sum in one pass.
// The sum is kept relative to the highest value so far; when a higher one comes, what has been
// summed is scaled down once. Two such pairs merge by the same rule, so threads and warps can sum
// their own columns: x is read twice instead of three times.
//
// x, y [outer, cols, inner] f32, rows = outer * inner; log: y is the logarithm of the softmax
// launch: grid (anything up to rows), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 2
#include "lab.cuh"
#include "online.cuh"

extern "C" __global__ void softmax_3_online(const float* __restrict__ x, float* __restrict__ y,
                                            long long rows, long long cols, long long inner,
                                            bool log) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long start = row_start(row, cols, inner);
        const float* x_row = x + start;
        float* y_row = y + start;

        OnlineSum total = kNoSum;
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            total = MergeSums()(total, {x_row[c * inner], 1.0f});
        }
        total = block_all_reduce(total, kNoSum, MergeSums());
        const float log_sum = logf(total.sum);
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float shifted = x_row[c * inner] - total.highest;
            y_row[c * inner] = log ? shifted - log_sum : expf(shifted) / total.sum;
        }
    }
}
