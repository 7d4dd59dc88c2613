// Average pooling backward, rung 2 of 2: each input collects from the windows over it.
// One thread per input reads the gradients rung 1's threads would have added there: as many reads
// as rung 1 had atomics, but neighbours share them, dx needs no zeros before, and the sum has one
// order.
//
// dy [planes, OH, OW] f32  ->  dx [planes, H, W] f32
// launch: grid (anything), block (anything)
// Counter: atomic global.* lanes/gradient = 0
// Counter: read global.dy lanes/gradient = 9
// Counter: write global.dx lanes/output = 1
#include "lab.cuh"
#include "pooling.cuh"

extern "C" __global__ void avg_pool2d_backward_2_gather(const float* __restrict__ dy,
                                                        float* __restrict__ dx, Pool pool) {
    const long long H = pool.h.in, W = pool.w.in, OW = pool.w.out;
    for (long long i = global_thread(); i < pool.planes * H * W; i += grid_threads()) {
        const float* dy_plane = dy + i / (H * W) * pool.h.out * OW;
        const Range rows = outputs_over(i / W % H, pool.h), cols = outputs_over(i % W, pool.w);
        float sum = 0.0f;
        for (long long oh = rows.first; oh < rows.end; ++oh) {
            for (long long ow = cols.first; ow < cols.end; ++ow) {
                sum += dy_plane[oh * OW + ow] / divisor_of(oh, ow, pool);
            }
        }
        dx[i] = sum;
    }
}
