// Average pooling, rung 2 of 2: rows first, then columns, in shared memory.
// The patch of 8 x 32 outputs comes in once. A window's sum is the sum of its rows' sums, and
// outputs below one another share rows: first every row of the patch is summed along the kernel's
// width, then those sums along its height. k + k additions where a window has k k; a patch that
// does not fit stays in global memory and is walked as in rung 1.
//
// x [planes, H, W] f32  ->  y [planes, OH, OW] f32
// launch: grid (anything), block (256), shared memory (patch) floats where `fits`; with its sums
// Counter: read global.x lanes/output = 1.328125
// Counter: read shared.kept lanes/output = 6.75
// Counter: read shared.kept wavefronts/request = 1
#include "lab.cuh"
#include "pooling.cuh"

extern "C" __global__ void avg_pool2d_2_separable(const float* __restrict__ x,
                                                  float* __restrict__ y, Pool pool, bool fits) {
    extern __shared__ float kept[];  // the patch, then its rows' sums
    const long long W = pool.w.in, OH = pool.h.out, OW = pool.w.out;
    const long long tiles_h = (OH + kTileRows - 1) / kTileRows;
    const long long tiles_w = (OW + kTileCols - 1) / kTileCols;
    for (long long tile = blockIdx.x; tile < pool.planes * tiles_h * tiles_w; tile += gridDim.x) {
        const long long first_oh = tile / tiles_w % tiles_h * kTileRows;
        const long long first_ow = tile % tiles_w * kTileCols;
        const long long plane = tile / (tiles_h * tiles_w);
        const float* x_plane = x + plane * pool.h.in * W;
        const Patch patch = patch_of(first_oh, first_ow, pool);
        const int col = threadIdx.x % kTileCols;
        const long long oh = first_oh + threadIdx.x / kTileCols, ow = first_ow + col;
        const Range rows = window_of(oh, pool.h), cols = window_of(ow, pool.w);
        float* row_sums = kept + patch.rows * patch.cols;

        if (fits) {
            load_patch(x_plane, kept, patch, pool);
            for (long long row = threadIdx.x / kTileCols; row < patch.rows; row += kTileRows) {
                const long long h = patch.top + row;
                if (h < 0 || h >= pool.h.in || ow >= OW) continue;
                float sum = 0.0f;
                for (long long w = cols.first; w < cols.end; ++w) sum += kept[patch.at(h, w)];
                row_sums[row * kTileCols + col] = sum;
            }
            __syncthreads();
        }
        if (oh >= OH || ow >= OW) continue;
        float sum = 0.0f;
        for (long long h = rows.first; h < rows.end; ++h) {
            if (fits) {
                sum += row_sums[(h - patch.top) * kTileCols + col];
            } else {
                for (long long w = cols.first; w < cols.end; ++w) sum += x_plane[h * W + w];
            }
        }
        y[(plane * OH + oh) * OW + ow] = sum / divisor_of(oh, ow, pool);
    }
}
