// Max pooling, rung 2 of 2: the inputs of 8 x 32 outputs in shared memory.
// A block reads its patch once, halo included, and its threads walk their windows there: 10 x 34
// numbers for 256 outputs of a 3x3 kernel, 1.33 each where rung 1 had 9. A patch that does not fit
// (a large kernel or stride) stays in global memory.
//
// x [planes, H, W] f32  ->  y [planes, OH, OW] f32, index i64 of each maximum in its plane
// launch: grid (anything), block (256), shared memory (patch) floats where `fits`
// Counter: read global.x lanes/output = 1.328125
// Counter: read shared.kept lanes/output = 9
// Counter: read shared.kept wavefronts/request = 1
#include "lab.cuh"
#include "pooling.cuh"

extern "C" __global__ void max_pool2d_2_tiled(const float* __restrict__ x, float* __restrict__ y,
                                              long long* __restrict__ index, Pool pool, bool fits) {
    extern __shared__ float kept[];
    const long long W = pool.w.in, OH = pool.h.out, OW = pool.w.out;
    const long long tiles_h = (OH + kTileRows - 1) / kTileRows;
    const long long tiles_w = (OW + kTileCols - 1) / kTileCols;
    for (long long tile = blockIdx.x; tile < pool.planes * tiles_h * tiles_w; tile += gridDim.x) {
        const long long first_oh = tile / tiles_w % tiles_h * kTileRows;
        const long long first_ow = tile % tiles_w * kTileCols;
        const long long plane = tile / (tiles_h * tiles_w);
        const float* x_plane = x + plane * pool.h.in * W;
        const Patch patch = patch_of(first_oh, first_ow, pool);
        if (fits) load_patch(x_plane, kept, patch, pool);

        const long long oh = first_oh + threadIdx.x / kTileCols;
        const long long ow = first_ow + threadIdx.x % kTileCols;
        if (oh >= OH || ow >= OW) continue;
        const Range rows = window_of(oh, pool.h), cols = window_of(ow, pool.w);
        Highest best = lowest_at(rows.first * W + cols.first);
        for (long long h = rows.first; h < rows.end; h += pool.h.dilation) {
            for (long long w = cols.first; w < cols.end; w += pool.w.dilation) {
                take(best, fits ? kept[patch.at(h, w)] : x_plane[h * W + w], h * W + w);
            }
        }
        const long long i = (plane * OH + oh) * OW + ow;
        y[i] = best.value;
        index[i] = best.index;
    }
}
