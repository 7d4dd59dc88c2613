// Transpose, rung 3 of 4: one column of padding.
// With rows of 33 floats the elements of a column lie in 32 different banks: reading it takes one
// wavefront instead of rung 2's 32, for 128 bytes of shared memory that nobody uses.
//
// x [rows, cols] f32, row-major  ->  y [cols, rows]
// launch: grid (ceil(cols / 32), ceil(rows / 32)), block (32, 32)
// Counter: read global.x sectors/request = 4
// Counter: write global.y sectors/request = 4
// Counter: read shared.tile wavefronts/request = 1
#include "lab.cuh"

extern "C" __global__ void transpose_3_padded(const float* __restrict__ x, float* __restrict__ y,
                                             int rows, int cols) {
    __shared__ float tile[32][33];
    const int first_col = blockIdx.x * 32, first_row = blockIdx.y * 32;
    int row = first_row + threadIdx.y, col = first_col + threadIdx.x;
    if (row < rows && col < cols) {
        tile[threadIdx.y][threadIdx.x] = x[static_cast<long long>(row) * cols + col];
    }
    __syncthreads();
    row = first_row + threadIdx.x, col = first_col + threadIdx.y;
    if (row < rows && col < cols) {
        y[static_cast<long long>(col) * rows + row] = tile[threadIdx.x][threadIdx.y];
    }
}
