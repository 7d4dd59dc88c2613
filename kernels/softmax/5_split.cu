// Softmax, rung 5 of 5: several blocks per row.
// One block per row leaves a device idle when rows are few and long. Highest value and sum merge in
// any order, so `splits` blocks take a share of each row and leave theirs; a second launch merges
// them again in every block, which costs a few reads, and writes y. x is read twice, as in rung 3,
// by as many multiprocessors as there are.
//
// x, y [outer, cols, inner] f32, rows = outer * inner; log: y is the logarithm of the softmax
// partial [rows, splits] float2: highest value, sum
// launch: grid (anything up to rows, splits), block (whole warps), for both: this, normalise
// Counter: read global.x sectors/request = 4
// Counter: read global.x lanes/output = 1
// Counter: write global.partial lanes/block = 1
// Counter of normalise: read global.x lanes/output = 1
#include "lab.cuh"
#include "online.cuh"

extern "C" __global__ void softmax_5_split(const float* __restrict__ x,
                                           float2* __restrict__ partial, long long rows,
                                           long long cols, long long inner) {
    const long long step = static_cast<long long>(gridDim.y) * blockDim.x;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* x_row = x + row_start(row, cols, inner);
        OnlineSum total = kNoSum;
        for (long long c = blockIdx.y * blockDim.x + threadIdx.x; c < cols; c += step) {
            total = MergeSums()(total, {x_row[c * inner], 1.0f});
        }
        total = block_all_reduce(total, kNoSum, MergeSums());
        if (threadIdx.x == 0) {
            partial[row * gridDim.y + blockIdx.y] = make_float2(total.highest, total.sum);
        }
    }
}

extern "C" __global__ void softmax_5_split_normalise(const float* __restrict__ x,
                                                     const float2* __restrict__ partial,
                                                     float* __restrict__ y, long long rows,
                                                     long long cols, long long inner, bool log) {
    const long long step = static_cast<long long>(gridDim.y) * blockDim.x;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        OnlineSum total = kNoSum;
        for (int s = threadIdx.x; s < gridDim.y; s += blockDim.x) {
            const float2 part = partial[row * gridDim.y + s];
            total = MergeSums()(total, {part.x, part.y});
        }
        total = block_all_reduce(total, kNoSum, MergeSums());
        const float log_sum = logf(total.sum);
        const long long start = row_start(row, cols, inner);
        for (long long c = blockIdx.y * blockDim.x + threadIdx.x; c < cols; c += step) {
            const float shifted = x[start + c * inner] - total.highest;
            y[start + c * inner] = log ? shifted - log_sum : expf(shifted) / total.sum;
        }
    }
}
