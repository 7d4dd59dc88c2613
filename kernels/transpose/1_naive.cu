// Transpose, rung 1 of 4: one element per thread, straight across.
// Lanes read along a row of x, 4 sectors a request, and write down a column of y: 32 lanes, 32
// rows, 32 sectors of which 28 bytes each are wasted.
//
// x [rows, cols] f32, row-major  ->  y [cols, rows]
// launch: grid (ceil(cols / 32), ceil(rows / 32)), block (32, 32)
// Counter: read global.x sectors/request = 4
// Counter: write global.y sectors/request = 32
#include "lab.cuh"

extern "C" __global__ void transpose_1_naive(const float* __restrict__ x, float* __restrict__ y,
                                             int rows, int cols) {
    const int col = blockIdx.x * 32 + threadIdx.x;
    const int row = blockIdx.y * 32 + threadIdx.y;
    if (row < rows && col < cols) {
        y[static_cast<long long>(col) * rows + row] = x[static_cast<long long>(row) * cols + col];
    }
}
