// Softmax, rung 4 of 5: the row waits in shared memory.
// One read and one write per element is the least any softmax can do. The block keeps as much of
// its row as fits where all later passes find it; columns beyond that are read again.
//
// x, y [outer, cols, inner] f32, rows = outer * inner; log: y is the logarithm of the softmax
// launch: grid (anything up to rows), block (whole warps), shared memory (cached) floats
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 1
// Counter: read shared.kept wavefronts/request = 1
#include "lab.cuh"

extern "C" __global__ void softmax_4_cached(const float* __restrict__ x, float* __restrict__ y,
                                            long long rows, long long cols, long long inner,
                                            bool log, int cached) {
    extern __shared__ float kept[];  // each thread reads only what it wrote: no barrier needed
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long start = row_start(row, cols, inner);
        const float* x_row = x + start;
        float* y_row = y + start;

        float highest = kLowestFloat;
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float value = x_row[c * inner];
            if (c < cached) kept[c] = value;
            highest = fmaxf(highest, value);
        }
        highest = block_all_reduce(highest, kLowestFloat, Larger());
        float sum = 0.0f;
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            sum += expf((c < cached ? kept[c] : x_row[c * inner]) - highest);
        }
        sum = block_all_reduce(sum, 0.0f, Add());
        const float log_sum = logf(sum);
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float shifted = (c < cached ? kept[c] : x_row[c * inner]) - highest;
            y_row[c * inner] = log ? shifted - log_sum : expf(shifted) / sum;
        }
    }
}
