// Average pooling backward, rung 1 of 2: each output spreads its gradient over its window.
// One thread per output, one atomic addition per input of the window: nine for a 3x3 kernel.
//
// dy [planes, OH, OW] f32  ->  dx [planes, H, W] f32, zero before
// launch: grid (anything), block (anything)
// Counter: read global.dy sectors/request = 4
// Counter: atomic global.dx lanes/gradient = 9
#include "lab.cuh"
#include "pooling.cuh"

extern "C" __global__ void avg_pool2d_backward_1_scatter(const float* __restrict__ dy, float* dx,
                                                         Pool pool) {
    const long long H = pool.h.in, W = pool.w.in, OH = pool.h.out, OW = pool.w.out;
    for (long long i = global_thread(); i < pool.planes * OH * OW; i += grid_threads()) {
        const long long oh = i / OW % OH, ow = i % OW;
        float* plane = dx + i / (OH * OW) * (H * W);
        const Range rows = window_of(oh, pool.h), cols = window_of(ow, pool.w);
        const float share = dy[i] / divisor_of(oh, ow, pool);
        for (long long h = rows.first; h < rows.end; ++h) {
            for (long long w = cols.first; w < cols.end; ++w) atomicAdd(&plane[h * W + w], share);
        }
    }
}
