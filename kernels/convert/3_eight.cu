// Conversion between float and half or bfloat16, rung 3 of 3: eight numbers per thread.
// 16 bytes is the most a lane can move at once: two float4 on the wide side, four pairs on the
// narrow one. A quarter of rung 2's stores, each filling 16 sectors.
//
// x [n], y [n]        launch: grid (anything), block (anything)
// This kernel: f32 to f16. Others: from_half, to_bfloat16, from_bfloat16.
// Counter: read global.x bytes/lane = 16
// Counter: write global.y sectors/request = 16
// Counter: write global.y bytes/lane = 16
#include "lab.cuh"
#include "narrow.cuh"

template <class Two>
__device__ __forceinline__ unsigned packed(float x, float y) {
    Two two;
    narrow(make_float2(x, y), two);
    return *reinterpret_cast<unsigned*>(&two);
}

template <class Two>
__device__ __forceinline__ float2 unpacked(unsigned bits) {
    return widen(*reinterpret_cast<Two*>(&bits));
}

template <class Two, class One>
__device__ __forceinline__ void to_narrow(const float* x, One* y, long long n) {
    const bool aligned = is_aligned(x, 16) && is_aligned(y, 16);
    const long long eights = aligned ? n / 8 : 0;
    for (long long e = global_thread(); e < eights; e += grid_threads()) {
        const float4 a = reinterpret_cast<const float4*>(x)[2 * e];
        const float4 b = reinterpret_cast<const float4*>(x)[2 * e + 1];
        reinterpret_cast<uint4*>(y)[e] = make_uint4(packed<Two>(a.x, a.y), packed<Two>(a.z, a.w),
                                                    packed<Two>(b.x, b.y), packed<Two>(b.z, b.w));
    }
    for (long long i = eights * 8 + global_thread(); i < n; i += grid_threads()) {
        y[i] = static_cast<One>(x[i]);
    }
}

template <class Two, class One>
__device__ __forceinline__ void from_narrow(const One* x, float* y, long long n) {
    const bool aligned = is_aligned(x, 16) && is_aligned(y, 16);
    const long long eights = aligned ? n / 8 : 0;
    for (long long e = global_thread(); e < eights; e += grid_threads()) {
        const uint4 bits = reinterpret_cast<const uint4*>(x)[e];
        const float2 a = unpacked<Two>(bits.x), b = unpacked<Two>(bits.y);
        const float2 c = unpacked<Two>(bits.z), d = unpacked<Two>(bits.w);
        reinterpret_cast<float4*>(y)[2 * e] = make_float4(a.x, a.y, b.x, b.y);
        reinterpret_cast<float4*>(y)[2 * e + 1] = make_float4(c.x, c.y, d.x, d.y);
    }
    for (long long i = eights * 8 + global_thread(); i < n; i += grid_threads()) {
        y[i] = static_cast<float>(x[i]);
    }
}

extern "C" __global__ void convert_3_eight(const float* __restrict__ x, __half* __restrict__ y,
                                           long long n) {
    to_narrow<__half2>(x, y, n);
}

extern "C" __global__ void convert_3_eight_from_half(const __half* __restrict__ x,
                                                     float* __restrict__ y, long long n) {
    from_narrow<__half2>(x, y, n);
}

extern "C" __global__ void convert_3_eight_to_bfloat16(const float* __restrict__ x,
                                                       __nv_bfloat16* __restrict__ y, long long n) {
    to_narrow<__nv_bfloat162>(x, y, n);
}

extern "C" __global__ void convert_3_eight_from_bfloat16(const __nv_bfloat16* __restrict__ x,
                                                         float* __restrict__ y, long long n) {
    from_narrow<__nv_bfloat162>(x, y, n);
}
