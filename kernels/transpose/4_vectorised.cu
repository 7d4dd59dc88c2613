// Transpose, rung 4 of 4: four elements per thread on both sides of the tile.
// A float4 each way leaves a quarter of rung 3's global requests, at 16 sectors each. The padded
// tile is touched float by float: in rows of 33 a float4 would be misaligned.
//
// x [rows, cols] f32, row-major  ->  y [cols, rows]
// launch: grid (ceil(cols / 32), ceil(rows / 32)), block (8, 32)
// Counter: read global.x sectors/request = 16
// Counter: write global.y sectors/request = 16
// Counter: read shared.tile wavefronts/request = 1
// Counter: write shared.tile wavefronts/request = 1
#include "lab.cuh"

extern "C" __global__ void transpose_4_vectorised(const float* __restrict__ x,
                                                  float* __restrict__ y, int rows, int cols) {
    __shared__ float tile[32][33];
    const int first_col = blockIdx.x * 32, first_row = blockIdx.y * 32;
    const int four = threadIdx.x * 4, line = threadIdx.y;

    const int row = first_row + line;
    if (row < rows) {
        const float* from = x + static_cast<long long>(row) * cols + first_col + four;
        if (first_col + four + 3 < cols && is_aligned_for_float4(from)) {
            const float4 v = *reinterpret_cast<const float4*>(from);
            tile[line][four] = v.x;
            tile[line][four + 1] = v.y;
            tile[line][four + 2] = v.z;
            tile[line][four + 3] = v.w;
        } else {
            for (int i = 0; i < 4 && first_col + four + i < cols; ++i) {
                tile[line][four + i] = from[i];
            }
        }
    }
    __syncthreads();
    const int col = first_col + line;
    if (col < cols) {
        float* to = y + static_cast<long long>(col) * rows + first_row + four;
        if (first_row + four + 3 < rows && is_aligned_for_float4(to)) {
            *reinterpret_cast<float4*>(to) =
                make_float4(tile[four][line], tile[four + 1][line], tile[four + 2][line],
                            tile[four + 3][line]);
        } else {
            for (int i = 0; i < 4 && first_row + four + i < rows; ++i) to[i] = tile[four + i][line];
        }
    }
}
