// Max pooling backward, rung 2 of 2: each input collects from the outputs it won.
// One thread per input asks every window over it whether this input was the maximum. More reads
// than rung 1, but neighbouring threads share them, no atomic is left, dx needs no zeros before,
// and the sum has one order.
//
// dy [planes, OH, OW], index i64  ->  dx [planes, H, W]
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once.
// launch: grid (anything), block (anything)
// Counter: atomic global.* lanes/gradient = 0
// Counter: write global.dx lanes/output = 1
// Counter of bfloat16: write global.dx lanes/output = 1
#include "lab.cuh"
#include "narrow.cuh"
#include "pooling.cuh"

template <class T>
__device__ __forceinline__ void gather(const T* __restrict__ dy,
                                       const long long* __restrict__ index, T* __restrict__ dx,
                                       Pool pool) {
    const long long H = pool.h.in, W = pool.w.in, OW = pool.w.out;
    for (long long i = global_thread(); i < pool.planes * H * W; i += grid_threads()) {
        const long long in_plane = i % (H * W), first_output = i / (H * W) * pool.h.out * OW;
        const Range rows = outputs_over(in_plane / W, pool.h);
        const Range cols = outputs_over(in_plane % W, pool.w);
        float sum = 0.0f;
        for (long long oh = rows.first; oh < rows.end; ++oh) {
            for (long long ow = cols.first; ow < cols.end; ++ow) {
                const long long o = first_output + oh * OW + ow;
                if (index[o] == in_plane && covers_inputs(oh, ow, pool)) {
                    sum += static_cast<float>(dy[o]);
                }
            }
        }
        dx[i] = T(sum);
    }
}

extern "C" __global__ void max_pool2d_backward_2_gather(const float* __restrict__ dy,
                                                        const long long* __restrict__ index,
                                                        float* __restrict__ dx, Pool pool) {
    gather(dy, index, dx, pool);
}

extern "C" __global__ void max_pool2d_backward_2_gather_half(const __half* __restrict__ dy,
                                                             const long long* __restrict__ index,
                                                             __half* __restrict__ dx, Pool pool) {
    gather(dy, index, dx, pool);
}

extern "C" __global__ void max_pool2d_backward_2_gather_bfloat16(
    const __nv_bfloat16* __restrict__ dy, const long long* __restrict__ index,
    __nv_bfloat16* __restrict__ dx, Pool pool) {
    gather(dy, index, dx, pool);
}
