// Softmax backward, rung 1 of 2: one thread per row.
// dx = y (dy - sum of dy y over the row); for the logarithm, dx = dy - exp(y) (sum of dy). Each
// thread walks its own row twice, and the rows of a warp lie `cols` apart: 32 sectors a request.
//
// dy, y, dx [outer, cols, inner] f32, rows = outer * inner; log: y is the logarithm of the softmax
// launch: grid (ceil(rows / 256)), block (256)
// Counter: read global.dy sectors/request = 32
// Counter: read global.* lanes/output = 4
#include "lab.cuh"

extern "C" __global__ void softmax_backward_1_thread_per_row(const float* __restrict__ dy,
                                                             const float* __restrict__ y,
                                                             float* __restrict__ dx, long long rows,
                                                             long long cols, long long inner,
                                                             bool log) {
    const long long row = global_thread();
    if (row >= rows) return;
    const long long start = row_start(row, cols, inner);

    float sum = 0.0f;
    for (long long c = 0; c < cols; ++c) {
        const long long i = start + c * inner;
        sum += dy[i] * (log ? 1.0f : y[i]);
    }
    for (long long c = 0; c < cols; ++c) {
        const long long i = start + c * inner;
        dx[i] = log ? dy[i] - expf(y[i]) * sum : y[i] * (dy[i] - sum);
    }
}
