// out = a + alpha * b, rung 3 of 4: a fixed grid that walks any length.
// As many threads as the device can hold at once, each taking several vectors: index arithmetic and
// block starts are paid once, and the grid no longer depends on n. Traffic stays as in rung 2.
//
// a, b, out [n] f32        launch: grid (anything), block (256)
// Counter: read global.a sectors/request = 16
// Counter: read global.a requests/warp-of-outputs = 0.25
#include "lab.cuh"

extern "C" __global__ void elementwise_3_grid_stride(const float* __restrict__ a,
                                                     const float* __restrict__ b,
                                                     float* __restrict__ out, float alpha,
                                                     long long n) {
    const bool aligned =
        is_aligned_for_float4(a) && is_aligned_for_float4(b) && is_aligned_for_float4(out);
    const long long vectors = aligned ? n / 4 : 0;
    const long long stride = grid_threads();
#pragma unroll 4
    for (long long v = global_thread(); v < vectors; v += stride) {
        const float4 left = reinterpret_cast<const float4*>(a)[v];
        const float4 right = reinterpret_cast<const float4*>(b)[v];
        reinterpret_cast<float4*>(out)[v] =
            make_float4(left.x + alpha * right.x, left.y + alpha * right.y,
                        left.z + alpha * right.z, left.w + alpha * right.w);
    }
    for (long long i = vectors * 4 + global_thread(); i < n; i += stride) {
        out[i] = a[i] + alpha * b[i];
    }
}
