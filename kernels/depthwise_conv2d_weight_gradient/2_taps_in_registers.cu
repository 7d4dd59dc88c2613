// Depthwise convolution's gradient for w, rung 2 of 2: nine sums in a thread, dy is read once.
// A thread that has read a gradient uses it for nine taps at a time, each with a sum of its own in
// a register: a ninth of rung 1's reads of dy, and one walk over the channel for a 3x3 kernel. Few
// channels would leave a device idle, so the walk is cut into chunks; a second kernel adds their
// sums in order.
//
// x [N, C, H, W], dy [N, K, P, Q], K a multiple of C  ->  partial [chunks, K, 1, R, S]  ->  dw f32
// launch: grid (K chunks), block (256), chunk: positions per block
// launch of sum: grid (ceil(weights / 256)), block (256)
// Counter: read global.dy sectors/request = 4
// Counter: read global.dy lanes/output/K = 0.11111111
// Counter of sum: write global.dw lanes/output = 1
#include "conv.cuh"

constexpr int kTaps = 9;

extern "C" __global__ void depthwise_conv2d_weight_gradient_2_taps_in_registers(
    const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ partial,
    Conv2d conv, long long chunk) {
    const int k = blockIdx.x % conv.out_channels, part = blockIdx.x / conv.out_channels;
    const long long plane = conv.out_plane(), first = part * chunk;
    const long long end = min(first + chunk, plane * conv.batch);
    float* to = partial + (1LL * part * conv.out_channels + k) * conv.taps();
    for (int first_tap = 0; first_tap < conv.taps(); first_tap += kTaps) {
        float sum[kTaps] = {};
        for (long long i = first + threadIdx.x; i < end; i += blockDim.x) {
            const long long n = i / plane;
            const int p = i % plane / conv.out_width, q = i % conv.out_width;
            const float* image = x + conv.x_plane(n, k / conv.out_per_group());
            const float gradient = dy[conv.y_plane(n, k) + i % plane];
            int r = first_tap / conv.kernel_w, s = first_tap % conv.kernel_w;
#pragma unroll
            for (int j = 0; j < kTaps; ++j) {  // past the last tap: sums that nobody asks for
                const float v = conv.under(image, conv.row_under(p, r), conv.column_under(q, s));
                sum[j] += v * gradient;
                if (++s == conv.kernel_w) s = 0, ++r;
            }
        }
#pragma unroll
        for (int j = 0; j < kTaps; ++j) {
            const float total = block_reduce_sum(sum[j]);
            if (threadIdx.x == 0 && first_tap + j < conv.taps()) to[first_tap + j] = total;
            __syncthreads();  // the next sum goes through the same shared memory
        }
    }
}

extern "C" __global__ void depthwise_conv2d_weight_gradient_2_taps_in_registers_sum(
    const float* __restrict__ partial, float* __restrict__ dw, long long weights, int chunks) {
    const long long i = global_thread();
    if (i >= weights) return;
    float sum = 0.0f;
    for (int part = 0; part < chunks; ++part) sum += partial[part * weights + i];
    dw[i] = sum;
}
