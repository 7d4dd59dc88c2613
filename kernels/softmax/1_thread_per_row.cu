// Softmax, rung 1 of 5: one thread per row, three passes.
// Highest value, sum of exponentials, quotient: each pass reads the row again. The 32 rows of a
// warp lie `cols` apart, so each of its loads touches 32 sectors to use 4 bytes of each (unless the
// softmax runs along an outer dimension: then neighbouring rows are neighbours in memory).
//
// x, y [outer, cols, inner] f32, rows = outer * inner; log: y is the logarithm of the softmax
// launch: grid (ceil(rows / 256)), block (256)
// Counter: read global.x sectors/request = 32
// Counter: read global.x lanes/output = 3
#include "lab.cuh"

extern "C" __global__ void softmax_1_thread_per_row(const float* __restrict__ x,
                                                    float* __restrict__ y, long long rows,
                                                    long long cols, long long inner, bool log) {
    const long long row = global_thread();
    if (row >= rows) return;
    const long long start = row_start(row, cols, inner);
    const float* x_row = x + start;
    float* y_row = y + start;

    float highest = kLowestFloat;
    for (long long c = 0; c < cols; ++c) highest = fmaxf(highest, x_row[c * inner]);
    float sum = 0.0f;
    for (long long c = 0; c < cols; ++c) sum += expf(x_row[c * inner] - highest);
    const float log_sum = logf(sum);
    for (long long c = 0; c < cols; ++c) {
        const float shifted = x_row[c * inner] - highest;
        y_row[c * inner] = log ? shifted - log_sum : expf(shifted) / sum;
    }
}
