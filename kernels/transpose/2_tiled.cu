// Transpose, rung 2 of 4: the turn happens in shared memory.
// A block reads a 32x32 tile by rows and writes it by rows of y, so both sides are 4 sectors a
// request; rung 1 wrote 32. The price is paid in shared memory: a column of the tile lies in one
// bank, and reading it takes 32 wavefronts.
//
// x [rows, cols] f32, row-major  ->  y [cols, rows]
// launch: grid (ceil(cols / 32), ceil(rows / 32)), block (32, 32)
// Counter: read global.x sectors/request = 4
// Counter: write global.y sectors/request = 4
// Counter: read shared.tile wavefronts/request = 32
#include "lab.cuh"

extern "C" __global__ void transpose_2_tiled(const float* __restrict__ x, float* __restrict__ y,
                                             int rows, int cols) {
    __shared__ float tile[32][32];
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
