// Strided copy, rung 2 of 3: the two fast dimensions meet in shared memory.
// One dimension runs fastest in x, another in y; a 32x32 tile over these two is read along the one
// and written along the other, so both sides take 4 sectors a request where rung 1 read 32. What
// the other dimensions add to the addresses is the same for a whole tile: one thread's divisions
// serve 1024 elements. When both sides run along one dimension, the tile is not turned.
//
// x and y of one shape, at any strides in elements; layout: dimension 0 runs fastest in y,
// dimension 1 in x (or is any other, when turned is false), then the rest
// launch: grid (ceil(size0 / 32) * ceil(size1 / 32) * others), block (32, 8)
// Counter: read global.x sectors/request = 4
// Counter: write global.y sectors/request = 4
// Counter: read shared.tile wavefronts/request = 1
#include "lab.cuh"

constexpr int kMaxDims = 8;
struct Layout {
    int dims;
    long long sizes[kMaxDims], x_strides[kMaxDims], y_strides[kMaxDims];
};

extern "C" __global__ void strided_copy_2_tiled(const float* __restrict__ x, float* __restrict__ y,
                                                Layout layout, bool turned) {
    __shared__ float tile[32][33];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const long long across = (layout.sizes[0] + 31) / 32, down = (layout.sizes[1] + 31) / 32;
    const long long first = blockIdx.x % across * 32, second = blockIdx.x / across % down * 32;
    long long rest = blockIdx.x / across / down, from = 0, to = 0;
    for (int d = 2; d < layout.dims; ++d) {
        const long long index = rest % layout.sizes[d];
        rest /= layout.sizes[d];
        from += index * layout.x_strides[d];
        to += index * layout.y_strides[d];
    }
    if (turned) {  // uniform in the grid
#pragma unroll
        for (int row = ty; row < 32; row += 8) {
            const long long i = first + row, j = second + tx;
            if (i < layout.sizes[0] && j < layout.sizes[1]) {
                tile[row][tx] = x[from + i * layout.x_strides[0] + j * layout.x_strides[1]];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int row = ty; row < 32; row += 8) {
        const long long i = first + tx, j = second + row;
        if (i < layout.sizes[0] && j < layout.sizes[1]) {
            const long long at = from + i * layout.x_strides[0] + j * layout.x_strides[1];
            y[to + i * layout.y_strides[0] + j * layout.y_strides[1]] =
                turned ? tile[tx][row] : x[at];
        }
    }
}
