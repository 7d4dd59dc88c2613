// Depthwise convolution's gradient for x, rung 2 of 2: weights stay, a row of dy is read once.
// As in the forward pass: a thread owns eight elements of x below one another, keeps the channel's
// weights in registers, and lets each row of dy go into the sums of all elements it bears on. A 3x3
// kernel then reads 30 gradients and 9 weights where rung 1 read 72 of each (fewer at the edges of
// dy). For a stride and a dilation of 1 downwards; others go as in rung 1.
//
// dy [N, K, P, Q], w [K, 1, R, S], K a multiple of C  ->  dx [N, C, H, W]
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once.
// launch: grid (ceil(N C ceil(H / 8) W / 256)), block (256)
// Counter: read global.w lanes/output/K = 0.125
// Counter: read global.dy lanes/product = 0.38095238
// Counter: write global.dx lanes/output = 1
// Counter of bfloat16: read global.dy lanes/product = 0.38095238
// Counter of bfloat16: write global.dx lanes/output = 1
#include "conv.cuh"

constexpr int kStrip = 8;  // elements of a thread, one below the other

template <int R, int S, class T>
__device__ __forceinline__ void walk(float (&sum)[kStrip], const T* plane, const T* weight,
                                     int first_h, int v, const Conv2d& conv) {
    float kept[R * S];
    int column[S];  // of dy under each tap; divisions, so once for all rows
#pragma unroll
    for (int i = 0; i < R * S; ++i) kept[i] = weight[i];
#pragma unroll
    for (int s = 0; s < S; ++s) column[s] = conv.column_over(v, s);
#pragma unroll
    for (int row = 0; row < kStrip + R - 1; ++row) {
        const long long p = 1LL * first_h + conv.pad_h - (R - 1) + row;
        if (p < 0 || p >= conv.out_height) continue;
        float across[S];
#pragma unroll
        for (int s = 0; s < S; ++s) {
            across[s] = 0.0f;
            if (column[s] >= 0) across[s] = plane[p * conv.out_width + column[s]];
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const int o = row + r - (R - 1);  // tap r put row p of y on this element
            if (o < 0 || o >= kStrip) continue;
#pragma unroll
            for (int s = 0; s < S; ++s) sum[o] += across[s] * kept[r * S + s];
        }
    }
}

template <class T>
__device__ __forceinline__ void input_gradient(const T* __restrict__ dy, const T* __restrict__ w,
                                               T* __restrict__ dx, Conv2d conv) {
    const int strips = (conv.height + kStrip - 1) / kStrip;
    const long long i = global_thread();
    const int v = i % conv.width;
    const int first_h = i / conv.width % strips * kStrip;
    const int c = i / conv.width / strips % conv.in_channels;
    const long long n = i / conv.width / strips / conv.in_channels;
    if (n >= conv.batch) return;

    const bool walks = conv.stride_h == 1 && conv.dilation_h == 1;  // uniform in the grid
    const int size = walks && conv.kernel_h == conv.kernel_w ? conv.kernel_h : 0;
    float sum[kStrip] = {};
    for (int k = c * conv.out_per_group(); k < (c + 1) * conv.out_per_group(); ++k) {
        const T* plane = dy + conv.y_plane(n, k);
        const T* weight = w + conv.w_taps(k, 0);
        if (size == 3) {
            walk<3, 3>(sum, plane, weight, first_h, v, conv);
        } else if (size == 5) {
            walk<5, 5>(sum, plane, weight, first_h, v, conv);
        } else {
            for (int tap = 0; tap < conv.taps(); ++tap) {
                const int q = conv.column_over(v, tap % conv.kernel_w);
                if (q < 0) continue;
                const float kept = weight[tap];
#pragma unroll
                for (int o = 0; o < kStrip; ++o) {
                    const int p = conv.row_over(first_h + o, tap / conv.kernel_w);
                    if (p < 0) continue;
                    sum[o] += static_cast<float>(plane[1LL * p * conv.out_width + q]) * kept;
                }
            }
        }
    }
    T* column = dx + conv.x_plane(n, c) + v;
#pragma unroll
    for (int o = 0; o < kStrip; ++o) {
        if (first_h + o < conv.height) column[1LL * (first_h + o) * conv.width] = T(sum[o]);
    }
}

extern "C" __global__ void depthwise_conv2d_input_gradient_2_rows_in_registers(
    const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx,
    Conv2d conv) {
    input_gradient(dy, w, dx, conv);
}

extern "C" __global__ void depthwise_conv2d_input_gradient_2_rows_in_registers_half(
    const __half* __restrict__ dy, const __half* __restrict__ w, __half* __restrict__ dx,
    Conv2d conv) {
    input_gradient(dy, w, dx, conv);
}

extern "C" __global__ void depthwise_conv2d_input_gradient_2_rows_in_registers_bfloat16(
    const __nv_bfloat16* __restrict__ dy, const __nv_bfloat16* __restrict__ w,
    __nv_bfloat16* __restrict__ dx, Conv2d conv) {
    input_gradient(dy, w, dx, conv);
}
