// out = a + alpha * b, rung 2 of 4: four elements per thread, as one float4.
// The same bytes in a quarter of the requests: 16 sectors each instead of 4. What is left of a
// length that is no multiple of four, and arrays that start off a 16-byte boundary, go one by one.
//
// a, b, out [n] f32        launch: grid (ceil(n / 1024)), block (256)
// Counter: read global.a sectors/request = 16
// Counter: write global.out sectors/request = 16
// Counter: read global.a bytes/lane = 16
// Counter: read global.a requests/warp-of-outputs = 0.25
#include "lab.cuh"

extern "C" __global__ void elementwise_2_vectorised(const float* __restrict__ a,
                                                    const float* __restrict__ b,
                                                    float* __restrict__ out, float alpha,
                                                    long long n) {
    const bool aligned =
        is_aligned_for_float4(a) && is_aligned_for_float4(b) && is_aligned_for_float4(out);
    const long long vectors = aligned ? n / 4 : 0;  // uniform in the grid
    for (long long v = global_thread(); v < vectors; v += grid_threads()) {
        const float4 left = reinterpret_cast<const float4*>(a)[v];
        const float4 right = reinterpret_cast<const float4*>(b)[v];
        reinterpret_cast<float4*>(out)[v] =
            make_float4(left.x + alpha * right.x, left.y + alpha * right.y,
                        left.z + alpha * right.z, left.w + alpha * right.w);
    }
    for (long long i = vectors * 4 + global_thread(); i < n; i += grid_threads()) {
        out[i] = a[i] + alpha * b[i];
    }
}
