// Average pooling, rung 1 of 2: one thread per output.
// Each thread walks its window in global memory: a 3x3 kernel at stride 1 requests every input
// nine times.
//
// x [planes, H, W] f32  ->  y [planes, OH, OW] f32        launch: grid (anything), block (anything)
// Counter: read global.x lanes/output = 9
// Counter: write global.y sectors/request = 4
#include "lab.cuh"
#include "pooling.cuh"

extern "C" __global__ void avg_pool2d_1_thread_per_output(const float* __restrict__ x,
                                                          float* __restrict__ y, Pool pool) {
    const long long H = pool.h.in, W = pool.w.in, OH = pool.h.out, OW = pool.w.out;
    for (long long i = global_thread(); i < pool.planes * OH * OW; i += grid_threads()) {
        const long long oh = i / OW % OH, ow = i % OW;
        const float* plane = x + i / (OH * OW) * (H * W);
        const Range rows = window_of(oh, pool.h), cols = window_of(ow, pool.w);
        float sum = 0.0f;
        for (long long h = rows.first; h < rows.end; ++h) {
            for (long long w = cols.first; w < cols.end; ++w) sum += plane[h * W + w];
        }
        y[i] = sum / divisor_of(oh, ow, pool);
    }
}
