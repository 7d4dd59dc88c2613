// 2-D convolution's gradient for w, rung 2 of 3: one block per weight.
// 256 threads share a weight's sum and meet in shuffles. Lanes are now neighbours along a row of y,
// so both reads coalesce, and there are 256 times as many threads. The traffic stays: every weight
// reads all of its dy and x.
//
// x [N, C, H, W], dy [N, K, P, Q]  ->  dw [K, C / groups, R, S] f32
// launch: grid (K C / groups R S), block (256)
// Counter: read global.dy sectors/request = 4
// Counter: read global.dy lanes/output/K = 1
// Counter: write global.dw lanes/block = 1
#include "conv.cuh"

extern "C" __global__ void conv2d_weight_gradient_2_block_per_weight(const float* __restrict__ x,
                                                                     const float* __restrict__ dy,
                                                                     float* __restrict__ dw,
                                                                     Conv2d conv) {
    const int channels = conv.in_per_group();
    const int s = blockIdx.x % conv.kernel_w;
    const int r = blockIdx.x / conv.kernel_w % conv.kernel_h;
    const int c = blockIdx.x / conv.taps() % channels;
    const int k = blockIdx.x / conv.taps() / channels;

    const int group = k / conv.out_per_group();
    const long long plane = conv.out_plane(), positions = plane * conv.batch;
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < positions; i += blockDim.x) {
        const long long n = i / plane;
        const int p = i % plane / conv.out_width, q = i % conv.out_width;
        const float* image = x + conv.x_plane(n, group * channels + c);
        sum += conv.under(image, conv.row_under(p, r), conv.column_under(q, s)) *
               dy[conv.y_plane(n, k) + i % plane];
    }
    sum = block_reduce_sum(sum);
    if (threadIdx.x == 0) dw[blockIdx.x] = sum;
}
