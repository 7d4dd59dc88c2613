// 2-D convolution's gradient for x, rung 2 of 3: every x asks who used it.
// The same products, collected: the thread of an element of x finds the outputs that a tap put on
// it and adds up their gradients in a register. No atomic is left, one plain write per element, and
// the result no longer depends on the order of anything.
//
// dy [N, K, P, Q], w [K, C / groups, R, S]  ->  dx [N, C, H, W] f32
// launch: grid (ceil(N C H W / 256)), block (256)
// Counter: atomic global.* lanes/product = 0
// Counter: read global.dy lanes/product = 1
// Counter: read global.w sectors/request = 1
// Counter: write global.dx sectors/request = 4
#include "conv.cuh"

extern "C" __global__ void conv2d_input_gradient_2_gather(const float* __restrict__ dy,
                                                          const float* __restrict__ w,
                                                          float* __restrict__ dx, Conv2d conv) {
    const long long i = global_thread();
    if (i >= conv.in_plane() * conv.in_channels * conv.batch) return;
    const int v = i % conv.width;
    const int h = i / conv.width % conv.height;
    const int c = i / conv.in_plane() % conv.in_channels;
    const int n = i / conv.in_plane() / conv.in_channels;

    const int channels = conv.in_per_group(), group = c / channels;
    const int first_k = group * conv.out_per_group();
    float sum = 0.0f;
    for (int r = 0; r < conv.kernel_h; ++r) {
        const int p = conv.row_over(h, r);
        if (p < 0) continue;
        for (int s = 0; s < conv.kernel_w; ++s) {
            const int q = conv.column_over(v, s);
            if (q < 0) continue;
            for (int k = first_k; k < first_k + conv.out_per_group(); ++k) {
                sum += dy[conv.y_plane(n, k) + 1LL * p * conv.out_width + q] *
                       w[conv.w_taps(k, c % channels) + r * conv.kernel_w + s];
            }
        }
    }
    dx[i] = sum;
}
