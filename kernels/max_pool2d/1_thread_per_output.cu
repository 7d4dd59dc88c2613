// Max pooling, rung 1 of 2: one thread per output.
// Each thread walks its window in global memory. Windows overlap, so a 3x3 kernel at stride 1
// requests every input nine times.
//
// x [planes, H, W] f32  ->  y [planes, OH, OW] f32, index i64 of each maximum in its plane
// launch: grid (anything), block (anything)
// Counter: read global.x lanes/output = 9
// Counter: write global.y sectors/request = 4
#include "lab.cuh"
#include "pooling.cuh"

extern "C" __global__ void max_pool2d_1_thread_per_output(const float* __restrict__ x,
                                                          float* __restrict__ y,
                                                          long long* __restrict__ index,
                                                          Pool pool) {
    const long long H = pool.h.in, W = pool.w.in, OH = pool.h.out, OW = pool.w.out;
    for (long long i = global_thread(); i < pool.planes * OH * OW; i += grid_threads()) {
        const float* plane = x + i / (OH * OW) * (H * W);
        const Range rows = window_of(i / OW % OH, pool.h), cols = window_of(i % OW, pool.w);
        Highest best = lowest_at(rows.first * W + cols.first);
        for (long long h = rows.first; h < rows.end; h += pool.h.dilation) {
            for (long long w = cols.first; w < cols.end; w += pool.w.dilation) {
                take(best, plane[h * W + w], h * W + w);
            }
        }
        y[i] = best.value;
        index[i] = best.index;
    }
}
