// 2-D convolution, rung 1 of 4: one thread per output, straight from the definition.
// Lanes are neighbours along a row of y, so they read neighbours of x and one common weight. As in
// the naive matrix product, every multiplication costs two reads of global memory.
//
// x [N, C, H, W], w [K, C / groups, R, S], bias [K] or null  ->  y [N, K, P, Q] f32, contiguous
// launch: grid (ceil(N K P Q / 256)), block (256)
// Counter: read global.w sectors/request = 1
// Counter: write global.y sectors/request = 4
// Counter: read global.x lanes/output/K = 1
// Counter: read global.w lanes/output/K = 1
#include "conv.cuh"

extern "C" __global__ void conv2d_1_direct(const float* __restrict__ x, const float* __restrict__ w,
                                           const float* __restrict__ bias, float* __restrict__ y,
                                           Conv2d conv) {
    const long long i = global_thread();
    if (i >= conv.out_plane() * conv.out_channels * conv.batch) return;
    const int q = i % conv.out_width;
    const int p = i / conv.out_width % conv.out_height;
    const int k = i / conv.out_plane() % conv.out_channels;
    const int n = i / conv.out_plane() / conv.out_channels;

    const int channels = conv.in_per_group(), group = k / conv.out_per_group();
    const float* plane = x + conv.x_plane(n, group * channels);
    const float* weight = w + conv.w_taps(k, 0);
    float sum = 0.0f;
    for (int c = 0; c < channels; ++c, plane += conv.in_plane()) {
        for (int r = 0; r < conv.kernel_h; ++r) {
            for (int s = 0; s < conv.kernel_w; ++s) {
                sum += conv.under(plane, conv.row_under(p, r), conv.column_under(q, s)) * *weight++;
            }
        }
    }
    y[i] = bias ? sum + bias[k] : sum;
}
