// Depthwise convolution's gradient for w, rung 2 of 2: nine sums in a thread, dy is read once.
// A thread that has read a gradient uses it for nine taps at a time, each with a sum of its own in
// a register: a ninth of rung 1's reads of dy, and one walk over the channel for a 3x3 kernel. Few
// channels would leave a device idle, so the walk is cut into chunks; a second kernel adds their
// sums in order.
//
// x [N, C, H, W], dy [N, K, P, Q], K a multiple of C  ->  partial [chunks, K, 1, R, S]  ->  dw
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once.
// launch: grid (K chunks), block (256), chunk: positions per block
// launch of sum: grid (ceil(weights / 256)), block (256)
// Counter: read global.dy sectors/request = 4
// Counter: read global.dy lanes/output/K = 0.11111111
// Counter of sum: write global.dw lanes/output = 1
// Counter of bfloat16: read global.dy lanes/output/K = 0.11111111
// Counter of bfloat16_sum: write global.dw lanes/output = 1
#include "conv.cuh"

constexpr int kTaps = 9;

template <class T>
__device__ __forceinline__ void parts_of_sums(const T* __restrict__ x, const T* __restrict__ dy,
                                              float* __restrict__ partial, Conv2d conv,
                                              long long chunk) {
    const int k = blockIdx.x % conv.out_channels, part = blockIdx.x / conv.out_channels;
    const long long plane = conv.out_plane(), first = part * chunk;
    const long long end = min(first + chunk, plane * conv.batch);
    float* to = partial + (1LL * part * conv.out_channels + k) * conv.taps();
    for (int first_tap = 0; first_tap < conv.taps(); first_tap += kTaps) {
        float sum[kTaps] = {};
        for (long long i = first + threadIdx.x; i < end; i += blockDim.x) {
            const long long n = i / plane;
            const int p = i % plane / conv.out_width, q = i % conv.out_width;
            const T* image = x + conv.x_plane(n, k / conv.out_per_group());
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

extern "C" __global__ void depthwise_conv2d_weight_gradient_2_taps_in_registers(
    const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ partial,
    Conv2d conv, long long chunk) {
    parts_of_sums(x, dy, partial, conv, chunk);
}

extern "C" __global__ void depthwise_conv2d_weight_gradient_2_taps_in_registers_half(
    const __half* __restrict__ x, const __half* __restrict__ dy, float* __restrict__ partial,
    Conv2d conv, long long chunk) {
    parts_of_sums(x, dy, partial, conv, chunk);
}

extern "C" __global__ void depthwise_conv2d_weight_gradient_2_taps_in_registers_bfloat16(
    const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ dy,
    float* __restrict__ partial, Conv2d conv, long long chunk) {
    parts_of_sums(x, dy, partial, conv, chunk);
}

extern "C" __global__ void depthwise_conv2d_weight_gradient_2_taps_in_registers_sum(
    const float* __restrict__ partial, float* __restrict__ dw, long long weights, int chunks) {
    sum_parts(partial, dw, weights, chunks);
}

extern "C" __global__ void depthwise_conv2d_weight_gradient_2_taps_in_registers_half_sum(
    const float* __restrict__ partial, __half* __restrict__ dw, long long weights, int chunks) {
    sum_parts(partial, dw, weights, chunks);
}

extern "C" __global__ void depthwise_conv2d_weight_gradient_2_taps_in_registers_bfloat16_sum(
    const float* __restrict__ partial, __nv_bfloat16* __restrict__ dw, long long weights,
    int chunks) {
    sum_parts(partial, dw, weights, chunks);
}
