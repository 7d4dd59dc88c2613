// Softmax backward, rung 2 of 2: one block per row, and the row stays in registers.
// 4 sectors a request. Each thread keeps its first four columns between the sum and the result:
// rows up to four times the block are read once, where rung 1 read them twice.
//
// dy, y, dx [outer, cols, inner] f32, rows = outer * inner; log: y is the logarithm of the softmax
// launch: grid (anything up to rows), block (whole warps)
// Counter: read global.dy sectors/request = 4
// Counter: read global.* lanes/output = 2
#include "lab.cuh"

constexpr int kKept = 4;

__device__ __forceinline__ float input_gradient(float dy, float y, float sum, bool log) {
    return log ? dy - expf(y) * sum : y * (dy - sum);
}

extern "C" __global__ void softmax_backward_2_block_per_row(const float* __restrict__ dy,
                                                            const float* __restrict__ y,
                                                            float* __restrict__ dx, long long rows,
                                                            long long cols, long long inner,
                                                            bool log) {
    const long long step = blockDim.x, after_kept = kKept * step;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long start = row_start(row, cols, inner);
        float kept_dy[kKept], kept_y[kKept], sum = 0.0f;
#pragma unroll
        for (int k = 0; k < kKept; ++k) {
            const long long c = threadIdx.x + k * step, i = start + c * inner;
            kept_dy[k] = c < cols ? dy[i] : 0.0f;
            kept_y[k] = c < cols ? y[i] : 0.0f;
            sum += kept_dy[k] * (log ? 1.0f : kept_y[k]);
        }
        for (long long c = threadIdx.x + after_kept; c < cols; c += step) {
            const long long i = start + c * inner;
            sum += dy[i] * (log ? 1.0f : y[i]);
        }
        sum = block_all_reduce(sum, 0.0f, Add());
#pragma unroll
        for (int k = 0; k < kKept; ++k) {
            const long long c = threadIdx.x + k * step;
            if (c < cols) {
                dx[start + c * inner] = input_gradient(kept_dy[k], kept_y[k], sum, log);
            }
        }
        for (long long c = threadIdx.x + after_kept; c < cols; c += step) {
            const long long i = start + c * inner;
            dx[i] = input_gradient(dy[i], y[i], sum, log);
        }
    }
}
