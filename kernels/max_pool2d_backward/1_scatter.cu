// Max pooling backward, rung 1 of 2: each output sends its gradient to its maximum.
// One thread per output, one atomic addition each: windows overlap, so several outputs may have the
// same maximum, and floating-point sums then depend on who comes first.
//
// dy [planes, OH, OW] f32, index i64  ->  dx [planes, H, W] f32, zero before
// launch: grid (anything), block (anything)
// Counter: read global.dy sectors/request = 4
// Counter: atomic global.dx lanes/gradient = 1
#include "lab.cuh"
#include "pooling.cuh"

extern "C" __global__ void max_pool2d_backward_1_scatter(const float* __restrict__ dy,
                                                         const long long* __restrict__ index,
                                                         float* dx, Pool pool) {
    const long long outputs = pool.h.out * pool.w.out, inputs = pool.h.in * pool.w.in;
    for (long long i = global_thread(); i < pool.planes * outputs; i += grid_threads()) {
        const long long oh = i / pool.w.out % pool.h.out, ow = i % pool.w.out;
        if (!covers_inputs(oh, ow, pool)) continue;  // its index lies outside the window, too
        atomicAdd(&dx[i / outputs * inputs + index[i]], dy[i]);
    }
}
