// Depthwise convolution, rung 1 of 3: one thread per output.
// Each channel has a kernel of its own and sees one channel of x, so there is little to share: per
// multiplication one x and one weight are read, and nothing is computed twice.
//
// x [N, C, H, W], w [K, 1, R, S], K a multiple of C, bias [K] or null  ->  y [N, K, P, Q] f32
// launch: grid (ceil(N K P Q / 256)), block (256)
// Counter: read global.x lanes/output/K = 1
// Counter: read global.w lanes/output/K = 1
#include "conv.cuh"

extern "C" __global__ void depthwise_conv2d_1_direct(const float* __restrict__ x,
                                                     const float* __restrict__ w,
                                                     const float* __restrict__ bias,
                                                     float* __restrict__ y, Conv2d conv) {
    const long long i = global_thread();
    if (i >= conv.out_plane() * conv.out_channels * conv.batch) return;
    const int q = i % conv.out_width;
    const int p = i / conv.out_width % conv.out_height;
    const int k = i / conv.out_plane() % conv.out_channels;
    const int n = i / conv.out_plane() / conv.out_channels;

    const float* plane = x + conv.x_plane(n, k / conv.out_per_group());
    const float* weight = w + conv.w_taps(k, 0);
    float sum = bias ? bias[k] : 0.0f;
    for (int r = 0; r < conv.kernel_h; ++r) {
        const long long h = conv.row_under(p, r);
        for (int s = 0; s < conv.kernel_w; ++s) {
            sum += conv.under(plane, h, conv.column_under(q, s)) * *weight++;
        }
    }
    y[i] = sum;
}
