// Depthwise convolution, rung 3 of 3: a row of x is read once for all outputs it lies under.
// Rung 2 read the rows that two outputs of a strip share once for each. Here the thread walks over
// the rows of x: a row's values go into the sums of all outputs that it lies under, then are gone.
// For 3x3 that is 10 rows instead of 24. The sums need addresses known to the compiler, so this
// is for a stride and a dilation of 1 downwards; others go as in rung 1.
//
// x [N, C, H, W], w [K, 1, R, S], K a multiple of C, bias [K] or null  ->  y [N, K, P, Q]
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once.
// launch: grid (ceil(N K ceil(P / 8) Q / 256)), block (256)
// Counter: read global.x lanes/output/K = 0.41666667
// Counter: read global.w lanes/output/K = 0.125
// Counter: write global.y lanes/output = 1
// Counter of bfloat16: read global.x lanes/output/K = 0.41666667
// Counter of bfloat16: write global.y lanes/output = 1
#include "conv.cuh"

constexpr int kStrip = 8;  // outputs of a thread, one below the other

template <int R, int S, class T>
__device__ __forceinline__ void walk(float (&sum)[kStrip], const T* plane, const T* weight,
                                     int first_p, int q, const Conv2d& conv) {
    float kept[R * S];
#pragma unroll
    for (int i = 0; i < R * S; ++i) kept[i] = weight[i];
#pragma unroll
    for (int row = 0; row < kStrip + R - 1; ++row) {
        const long long h = conv.row_under(first_p + row, 0);
        float across[S];
#pragma unroll
        for (int s = 0; s < S; ++s) across[s] = conv.under(plane, h, conv.column_under(q, s));
#pragma unroll
        for (int r = 0; r < R; ++r) {
            if (row - r < 0 || row - r >= kStrip) continue;
#pragma unroll
            for (int s = 0; s < S; ++s) sum[row - r] += across[s] * kept[r * S + s];
        }
    }
}

template <class T>
__device__ __forceinline__ void convolve(const T* __restrict__ x, const T* __restrict__ w,
                                         const T* __restrict__ bias, T* __restrict__ y,
                                         Conv2d conv) {
    const int strips = (conv.out_height + kStrip - 1) / kStrip;
    const long long i = global_thread();
    const int q = i % conv.out_width;
    const int first_p = i / conv.out_width % strips * kStrip;
    const int k = i / conv.out_width / strips % conv.out_channels;
    const long long n = i / conv.out_width / strips / conv.out_channels;
    if (n >= conv.batch) return;

    const T* plane = x + conv.x_plane(n, k / conv.out_per_group());
    const T* weight = w + conv.w_taps(k, 0);
    float sum[kStrip];
#pragma unroll
    for (int o = 0; o < kStrip; ++o) sum[o] = bias ? static_cast<float>(bias[k]) : 0.0f;

    const bool walks = conv.stride_h == 1 && conv.dilation_h == 1;  // uniform in the grid
    const int size = walks && conv.kernel_h == conv.kernel_w ? conv.kernel_h : 0;
    if (size == 3) {
        walk<3, 3>(sum, plane, weight, first_p, q, conv);
    } else if (size == 5) {
        walk<5, 5>(sum, plane, weight, first_p, q, conv);
    } else {
        for (int r = 0; r < conv.kernel_h; ++r) {
            for (int s = 0; s < conv.kernel_w; ++s) {
                const float tap = *weight++;
#pragma unroll
                for (int o = 0; o < kStrip; ++o) {
                    const long long h = conv.row_under(first_p + o, r);
                    sum[o] += conv.under(plane, h, conv.column_under(q, s)) * tap;
                }
            }
        }
    }
    T* column = y + conv.y_plane(n, k) + q;
#pragma unroll
    for (int o = 0; o < kStrip; ++o) {
        if (first_p + o < conv.out_height) column[1LL * (first_p + o) * conv.out_width] = T(sum[o]);
    }
}

extern "C" __global__ void depthwise_conv2d_3_rows_in_registers(const float* __restrict__ x,
                                                                const float* __restrict__ w,
                                                                const float* __restrict__ bias,
                                                                float* __restrict__ y,
                                                                Conv2d conv) {
    convolve(x, w, bias, y, conv);
}

extern "C" __global__ void depthwise_conv2d_3_rows_in_registers_half(
    const __half* __restrict__ x, const __half* __restrict__ w, const __half* __restrict__ bias,
    __half* __restrict__ y, Conv2d conv) {
    convolve(x, w, bias, y, conv);
}

extern "C" __global__ void depthwise_conv2d_3_rows_in_registers_bfloat16(
    const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
    const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ y, Conv2d conv) {
    convolve(x, w, bias, y, conv);
}
