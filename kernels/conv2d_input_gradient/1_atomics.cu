// 2-D convolution's gradient for x, rung 1 of 3: every output hands its gradient back.
// The forward pass read backwards: the thread of an output adds dy times each weight to every x
// that the output was made of. Neighbouring outputs were made of the same x, so each product is an
// atomic.
//
// dy [N, K, P, Q], w [K, C / groups, R, S]  ->  dx [N, C, H, W] f32, zero before
// launch: grid (ceil(N K P Q / 256)), block (256)
// Counter: read global.dy sectors/request = 4
// Counter: atomic global.dx lanes/product = 1
#include "conv.cuh"

extern "C" __global__ void conv2d_input_gradient_1_atomics(const float* __restrict__ dy,
                                                           const float* __restrict__ w,
                                                           float* __restrict__ dx, Conv2d conv) {
    const long long i = global_thread();
    if (i >= conv.out_plane() * conv.out_channels * conv.batch) return;
    const int q = i % conv.out_width;
    const int p = i / conv.out_width % conv.out_height;
    const int k = i / conv.out_plane() % conv.out_channels;
    const int n = i / conv.out_plane() / conv.out_channels;

    const int channels = conv.in_per_group(), group = k / conv.out_per_group();
    float* plane = dx + conv.x_plane(n, group * channels);
    const float* weight = w + conv.w_taps(k, 0);
    const float gradient = dy[i];
    for (int c = 0; c < channels; ++c, plane += conv.in_plane()) {
        for (int r = 0; r < conv.kernel_h; ++r) {
            for (int s = 0; s < conv.kernel_w; ++s, ++weight) {
                const long long h = conv.row_under(p, r), v = conv.column_under(q, s);
                if (h >= 0 && h < conv.height && v >= 0 && v < conv.width) {
                    atomicAdd(plane + h * conv.width + v, gradient * *weight);
                }
            }
        }
    }
}
