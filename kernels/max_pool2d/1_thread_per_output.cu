// Max pooling, rung 1 of 2: one thread per output.
// Each thread walks its window in global memory. Windows overlap, so a 3x3 kernel at stride 1
// requests every input nine times.
//
// x [planes, H, W]  ->  y [planes, OH, OW], index i64 of each maximum in its plane
// This kernel: f32. Others: half, bfloat16, compared as floats: a maximum is handed on as it is.
// launch: grid (anything), block (anything)
// Counter: read global.x lanes/output = 9
// Counter: write global.y sectors/request = 4
// Counter of bfloat16: read global.x lanes/output = 9
// Counter of bfloat16: write global.y sectors/request = 2
#include "lab.cuh"
#include "narrow.cuh"
#include "pooling.cuh"

template <class T>
__device__ __forceinline__ void maxima(const T* __restrict__ x, T* __restrict__ y,
                                       long long* __restrict__ index, Pool pool) {
    const long long H = pool.h.in, W = pool.w.in, OH = pool.h.out, OW = pool.w.out;
    for (long long i = global_thread(); i < pool.planes * OH * OW; i += grid_threads()) {
        const T* plane = x + i / (OH * OW) * (H * W);
        const Range rows = window_of(i / OW % OH, pool.h), cols = window_of(i % OW, pool.w);
        Highest best = lowest_at(rows.first * W + cols.first);
        for (long long h = rows.first; h < rows.end; h += pool.h.dilation) {
            for (long long w = cols.first; w < cols.end; w += pool.w.dilation) {
                take(best, static_cast<float>(plane[h * W + w]), h * W + w);
            }
        }
        y[i] = T(best.value);
        index[i] = best.index;
    }
}

extern "C" __global__ void max_pool2d_1_thread_per_output(const float* __restrict__ x,
                                                          float* __restrict__ y,
                                                          long long* __restrict__ index,
                                                          Pool pool) {
    maxima(x, y, index, pool);
}

extern "C" __global__ void max_pool2d_1_thread_per_output_half(const __half* __restrict__ x,
                                                               __half* __restrict__ y,
                                                               long long* __restrict__ index,
                                                               Pool pool) {
    maxima(x, y, index, pool);
}

extern "C" __global__ void max_pool2d_1_thread_per_output_bfloat16(
    const __nv_bfloat16* __restrict__ x, __nv_bfloat16* __restrict__ y,
    long long* __restrict__ index, Pool pool) {
    maxima(x, y, index, pool);
}
