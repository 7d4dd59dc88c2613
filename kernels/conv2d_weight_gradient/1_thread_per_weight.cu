// 2-D convolution's gradient for w, rung 1 of 3: one thread per weight.
// A weight met every output of its channel, so its thread walks over all images and positions.
// Lanes share dy, one sector, but there are only as many threads as weights, and each one's sum is
// long.
//
// x [N, C, H, W], dy [N, K, P, Q]  ->  dw [K, C / groups, R, S] f32
// launch: grid (ceil(K C / groups R S / 256)), block (256)
// Counter: read global.dy sectors/request = 1
// Counter: read global.dy lanes/output/K = 1
#include "conv.cuh"

extern "C" __global__ void conv2d_weight_gradient_1_thread_per_weight(const float* __restrict__ x,
                                                                      const float* __restrict__ dy,
                                                                      float* __restrict__ dw,
                                                                      Conv2d conv) {
    const long long i = global_thread();
    const int channels = conv.in_per_group();
    if (i >= static_cast<long long>(conv.out_channels) * channels * conv.taps()) return;
    const int s = i % conv.kernel_w;
    const int r = i / conv.kernel_w % conv.kernel_h;
    const int c = i / conv.taps() % channels;
    const int k = i / conv.taps() / channels;

    const int group = k / conv.out_per_group();
    float sum = 0.0f;
    for (int n = 0; n < conv.batch; ++n) {
        const float* plane = x + conv.x_plane(n, group * channels + c);
        const float* gradient = dy + conv.y_plane(n, k);
        for (int p = 0; p < conv.out_height; ++p) {
            const long long h = conv.row_under(p, r);
            for (int q = 0; q < conv.out_width; ++q) {
                sum += conv.under(plane, h, conv.column_under(q, s)) * *gradient++;
            }
        }
    }
    dw[i] = sum;
}
