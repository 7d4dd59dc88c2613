// Conversion between float and half or bfloat16, rung 2 of 3: two numbers per thread.
// A float2 in, a half2 out, and one instruction converts both. Half of rung 1's requests, and a
// store now fills 4 sectors. An odd last number, and tensors that start off a boundary, go one by
// one.
//
// x [n], y [n]        launch: grid (anything), block (anything)
// This kernel: f32 to f16. Others: from_half, to_bfloat16, from_bfloat16.
// Counter: read global.x sectors/request = 8
// Counter: write global.y sectors/request = 4
// Counter: write global.y bytes/lane = 4
#include "lab.cuh"
#include "narrow.cuh"

template <class Two, class One>
__device__ __forceinline__ void to_narrow(const float* x, One* y, long long n) {
    const bool aligned = is_aligned(x, sizeof(float2)) && is_aligned(y, sizeof(Two));
    const long long pairs = aligned ? n / 2 : 0;
    for (long long p = global_thread(); p < pairs; p += grid_threads()) {
        Two two;
        narrow(reinterpret_cast<const float2*>(x)[p], two);
        reinterpret_cast<Two*>(y)[p] = two;
    }
    for (long long i = pairs * 2 + global_thread(); i < n; i += grid_threads()) {
        y[i] = static_cast<One>(x[i]);
    }
}

template <class Two, class One>
__device__ __forceinline__ void from_narrow(const One* x, float* y, long long n) {
    const bool aligned = is_aligned(x, sizeof(Two)) && is_aligned(y, sizeof(float2));
    const long long pairs = aligned ? n / 2 : 0;
    for (long long p = global_thread(); p < pairs; p += grid_threads()) {
        reinterpret_cast<float2*>(y)[p] = widen(reinterpret_cast<const Two*>(x)[p]);
    }
    for (long long i = pairs * 2 + global_thread(); i < n; i += grid_threads()) {
        y[i] = static_cast<float>(x[i]);
    }
}

extern "C" __global__ void convert_2_pairs(const float* __restrict__ x, __half* __restrict__ y,
                                           long long n) {
    to_narrow<__half2>(x, y, n);
}

extern "C" __global__ void convert_2_pairs_from_half(const __half* __restrict__ x,
                                                     float* __restrict__ y, long long n) {
    from_narrow<__half2>(x, y, n);
}

extern "C" __global__ void convert_2_pairs_to_bfloat16(const float* __restrict__ x,
                                                       __nv_bfloat16* __restrict__ y, long long n) {
    to_narrow<__nv_bfloat162>(x, y, n);
}

extern "C" __global__ void convert_2_pairs_from_bfloat16(const __nv_bfloat16* __restrict__ x,
                                                         float* __restrict__ y, long long n) {
    from_narrow<__nv_bfloat162>(x, y, n);
}
