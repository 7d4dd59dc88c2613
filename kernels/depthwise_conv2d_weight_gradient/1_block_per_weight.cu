// Depthwise convolution's gradient for w, rung 1 of 2: one block per weight.
// A weight met every output of its channel. 256 threads walk over them, and shuffles add them up.
// The blocks of a channel's taps all read the same dy.
//
// x [N, C, H, W], dy [N, K, P, Q], K a multiple of C  ->  dw [K, 1, R, S] f32
// launch: grid (K R S), block (256)
// Counter: read global.dy sectors/request = 4
// Counter: read global.dy lanes/output/K = 1
#include "conv.cuh"

extern "C" __global__ void depthwise_conv2d_weight_gradient_1_block_per_weight(
    const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw,
    Conv2d conv) {
    const int tap = blockIdx.x % conv.taps(), k = blockIdx.x / conv.taps();
    const int r = tap / conv.kernel_w, s = tap % conv.kernel_w;
    const long long plane = conv.out_plane(), positions = plane * conv.batch;
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < positions; i += blockDim.x) {
        const long long n = i / plane;
        const int p = i % plane / conv.out_width, q = i % conv.out_width;
        const float* image = x + conv.x_plane(n, k / conv.out_per_group());
        sum += conv.under(image, conv.row_under(p, r), conv.column_under(q, s)) *
               dy[conv.y_plane(n, k) + i % plane];
    }
    sum = block_reduce_sum(sum);
    if (threadIdx.x == 0) dw[blockIdx.x] = sum;
}
