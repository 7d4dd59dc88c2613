// Depthwise convolution's gradient for x, rung 1 of 2: every x asks who used it.
// The thread of an element of x finds the outputs that a tap put on it, in the channels made of its
// own, and adds up their gradients. A gradient and a weight are read per multiplication.
//
// dy [N, K, P, Q], w [K, 1, R, S], K a multiple of C  ->  dx [N, C, H, W] f32
// launch: grid (ceil(N C H W / 256)), block (256)
// Counter: read global.dy lanes/product = 1
// Counter: read global.w lanes/product = 1
#include "conv.cuh"

extern "C" __global__ void depthwise_conv2d_input_gradient_1_gather(const float* __restrict__ dy,
                                                                    const float* __restrict__ w,
                                                                    float* __restrict__ dx,
                                                                    Conv2d conv) {
    const long long i = global_thread();
    if (i >= conv.in_plane() * conv.in_channels * conv.batch) return;
    const int v = i % conv.width;
    const int h = i / conv.width % conv.height;
    const int c = i / conv.in_plane() % conv.in_channels;
    const int n = i / conv.in_plane() / conv.in_channels;

    float sum = 0.0f;
    for (int k = c * conv.out_per_group(); k < (c + 1) * conv.out_per_group(); ++k) {
        const float* plane = dy + conv.y_plane(n, k);
        const float* weight = w + conv.w_taps(k, 0);
        for (int r = 0; r < conv.kernel_h; ++r) {
            const int p = conv.row_over(h, r);
            if (p < 0) continue;
            for (int s = 0; s < conv.kernel_w; ++s) {
                const int q = conv.column_over(v, s);
                if (q < 0) continue;
                sum += plane[1LL * p * conv.out_width + q] * weight[r * conv.kernel_w + s];
            }
        }
    }
    dx[i] = sum;
}
