// 2-D convolution, rung 2 of 4: a patch of x in shared memory, eight output channels per thread.
// A block computes 8x32 outputs of eight channels. The patch of x under them, halo included, comes
// from global memory once per input channel and serves all taps and all eight channels. Per 8
// multiplications a thread reads one float of the patch and two float4 of weights: 3/8 instead of
// rung 1's 2, and from shared memory.
//
// x [N, C, H, W], w [K, C / groups, R, S], bias [K] or null  ->  y [N, K, P, Q] f32, contiguous
// halo_h, halo_w: rows and columns of the patch; 0 when it is too large, as strides and dilations
// can make it: then taps lie so far apart that x is read where it is.
// launch: grid (N * groups * ceil(K / groups / 8) * ceil(P / 8) * ceil(Q / 32)), block (32, 8),
//         shared memory (halo_h * halo_w) floats
// Counter: read global.x lanes/output/K = 0.01844618
// Counter: read shared.* lanes/output/K = 0.375
// Counter: read shared.halo wavefronts/request = 1
// Counter: write global.y sectors/request = 4
#include "conv.cuh"

constexpr int kChannels = 8;  // of y, per thread
constexpr int kTaps = 64;     // of weights in shared memory at a time

extern "C" __global__ void conv2d_2_shared_tile(const float* __restrict__ x,
                                                const float* __restrict__ w,
                                                const float* __restrict__ bias,
                                                float* __restrict__ y, Conv2d conv, int halo_h,
                                                int halo_w) {
    extern __shared__ float halo[];
    __shared__ float4 weights[kTaps][kChannels / 4];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 32 + tx;

    const int channels = conv.in_per_group(), group_out = conv.out_per_group();
    const int tiles_q = (conv.out_width + 31) / 32, tiles_p = (conv.out_height + 7) / 8;
    const int tiles_k = (group_out + kChannels - 1) / kChannels;
    int rest = blockIdx.x;
    const int first_q = rest % tiles_q * 32;
    const int first_p = (rest /= tiles_q) % tiles_p * 8;
    const int first_k = (rest /= tiles_p) % tiles_k * kChannels;  // within the group
    const int group = (rest /= tiles_k) % conv.groups;
    const int n = rest / conv.groups;
    const int p = first_p + ty, q = first_q + tx;

    const float* plane = x + conv.x_plane(n, group * channels);
    const bool in_shared = halo_h > 0;  // uniform in the grid
    float sum[kChannels] = {};
    for (int c = 0; c < channels; ++c, plane += conv.in_plane()) {
        int r = 0, s = 0;
        for (int first_tap = 0; first_tap < conv.taps(); first_tap += kTaps) {
            const int taps = min(kTaps, conv.taps() - first_tap);
            if (first_tap == 0) {
                for (int i = t; i < halo_h * halo_w; i += 256) {
                    halo[i] = conv.under(plane, conv.row_under(first_p, 0) + i / halo_w,
                                         conv.column_under(first_q, 0) + i % halo_w);
                }
            }
            for (int i = t; i < taps * kChannels; i += 256) {
                const int tap = i / kChannels, k = i % kChannels;
                const long long from = conv.w_taps(group * group_out + first_k + k, c) + first_tap;
                const bool in = first_k + k < group_out;
                reinterpret_cast<float*>(weights)[i] = in ? w[from + tap] : 0.0f;
            }
            __syncthreads();
            for (int tap = 0; tap < taps; ++tap) {
                float v = 0.0f;
                if (in_shared) {
                    v = halo[(ty * conv.stride_h + r * conv.dilation_h) * halo_w +
                             tx * conv.stride_w + s * conv.dilation_w];
                } else if (p < conv.out_height && q < conv.out_width) {
                    v = conv.under(plane, conv.row_under(p, r), conv.column_under(q, s));
                }
                const float4 low = weights[tap][0], high = weights[tap][1];
                sum[0] += v * low.x, sum[1] += v * low.y, sum[2] += v * low.z, sum[3] += v * low.w;
                sum[4] += v * high.x, sum[5] += v * high.y, sum[6] += v * high.z;
                sum[7] += v * high.w;
                if (++s == conv.kernel_w) s = 0, ++r;
            }
            __syncthreads();  // the next round overwrites what slower threads still read
        }
    }
    if (p >= conv.out_height || q >= conv.out_width) return;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
        if (first_k + i >= group_out) break;
        const int k = group * group_out + first_k + i;
        y[conv.y_plane(n, k) + 1LL * p * conv.out_width + q] = bias ? sum[i] + bias[k] : sum[i];
    }
}
