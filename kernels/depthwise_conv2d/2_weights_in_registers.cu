// Depthwise convolution, rung 2 of 3: a thread keeps its channel's weights for eight outputs.
// A thread computes eight outputs below one another. They share the channel, so its weights are
// read once and stay in registers: an eighth of rung 1's reads of w. Registers have no addresses,
// so the kernel's size must be known to the compiler: 3x3, 5x5 and 7x7 are, others take the plain
// way.
//
// x [N, C, H, W], w [K, 1, R, S], K a multiple of C, bias [K] or null  ->  y [N, K, P, Q] f32
// launch: grid (ceil(N K ceil(P / 8) Q / 256)), block (256)
// Counter: read global.x lanes/output/K = 1
// Counter: read global.w lanes/output/K = 0.125
#include "conv.cuh"

constexpr int kStrip = 8;  // outputs of a thread, one below the other

// R x S weights in registers; with 0 x 0 they are read where they are needed.
template <int R, int S>
__device__ __forceinline__ void strip(const float* plane, const float* weight, float first,
                                      float* column, int first_p, int q, const Conv2d& conv) {
    const int height = R ? R : conv.kernel_h, width = S ? S : conv.kernel_w;
    float kept[R * S + 1];  // at least one: an array of none is no array
    if (R) {
#pragma unroll
        for (int i = 0; i < R * S; ++i) kept[i] = weight[i];
    }
    for (int p = first_p; p < min(first_p + kStrip, conv.out_height); ++p) {
        float sum = first;
#pragma unroll
        for (int r = 0; r < height; ++r) {
#pragma unroll
            for (int s = 0; s < width; ++s) {
                const float tap = R ? kept[r * S + s] : weight[r * width + s];
                sum += conv.under(plane, conv.row_under(p, r), conv.column_under(q, s)) * tap;
            }
        }
        column[1LL * p * conv.out_width] = sum;
    }
}

extern "C" __global__ void depthwise_conv2d_2_weights_in_registers(const float* __restrict__ x,
                                                                   const float* __restrict__ w,
                                                                   const float* __restrict__ bias,
                                                                   float* __restrict__ y,
                                                                   Conv2d conv) {
    const int strips = (conv.out_height + kStrip - 1) / kStrip;
    const long long i = global_thread();
    const int q = i % conv.out_width;
    const int first_p = i / conv.out_width % strips * kStrip;
    const int k = i / conv.out_width / strips % conv.out_channels;
    const long long n = i / conv.out_width / strips / conv.out_channels;
    if (n >= conv.batch) return;

    const float* plane = x + conv.x_plane(n, k / conv.out_per_group());
    const float* weight = w + conv.w_taps(k, 0);
    const float first = bias ? bias[k] : 0.0f;
    float* column = y + conv.y_plane(n, k) + q;
    const int size = conv.kernel_h == conv.kernel_w ? conv.kernel_h : 0;  // uniform in the grid
    if (size == 3) {
        strip<3, 3>(plane, weight, first, column, first_p, q, conv);
    } else if (size == 5) {
        strip<5, 5>(plane, weight, first, column, first_p, q, conv);
    } else if (size == 7) {
        strip<7, 7>(plane, weight, first, column, first_p, q, conv);
    } else {
        strip<0, 0>(plane, weight, first, column, first_p, q, conv);
    }
}
