// 2-D convolution, rung 4 of 4: 8x8 outputs per thread in a 128x128 tile.
// Four patches of 4x4 share their reads: 4 float4 feed 64 multiplications, half of rung 3's shared
// traffic, and each x gathered serves 128 channels. The price is registers and coarse tiles: small
// problems fill few of them, and rung 3 is the better one there.
//
// x [N, C, H, W], w [K, C / groups, R, S], bias [K] or null  ->  y [N, K, P, Q] f32, contiguous
// launch: grid (ceil(N P Q / 128) * groups * ceil(K / groups / 128)), block (256)
// Counter: read global.x lanes/output/K = 0.0078125
// Counter: read global.w bytes/lane = 16
// Counter: read shared.* lanes/output/K = 0.0625
// Counter: write global.y bytes/lane = 16
#include "conv.cuh"

constexpr int kTile = 128, kSlab = 8;

extern "C" __global__ void conv2d_4_wide_tile(const float* __restrict__ x,
                                              const float* __restrict__ w,
                                              const float* __restrict__ bias,
                                              float* __restrict__ y, Conv2d conv) {
    __shared__ float4 slab_w[2][kSlab][kTile / 4 + 1];  // turned: [depth][k]
    __shared__ float4 slab_x[2][kSlab][kTile / 4];      // [depth][position]
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int channels = conv.in_per_group(), group_out = conv.out_per_group();
    const int depth = channels * conv.taps();
    const long long positions = conv.batch * conv.out_plane();
    const int tiles_k = (group_out + kTile - 1) / kTile;
    const int first_k = blockIdx.x % tiles_k * kTile;  // within the group
    const int group = blockIdx.x / tiles_k % conv.groups;
    const long long first = static_cast<long long>(blockIdx.x / tiles_k / conv.groups) * kTile;

    // A thread gathers one column of the slab of x, and four neighbours of a row of w.
    const long long column = first + t % kTile;
    const bool has_column = column < positions;
    const int n = column / conv.out_plane();
    const int p = column % conv.out_plane() / conv.out_width, q = column % conv.out_width;
    const float* image = x + conv.x_plane(n, group * channels);
    const int w_k = t / 2, w_depth = t % 2 * 4;
    const float* w_row = w + conv.w_taps(group * group_out + first_k + w_k, 0);
    const bool has_row = first_k + w_k < group_out;
    float next_x[4], next_w[4];
    auto fetch = [&](int slab) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int d = slab * kSlab + t / kTile + 2 * j;
            const int c = d / conv.taps(), r = d % conv.taps() / conv.kernel_w;
            next_x[j] = 0.0f;
            if (has_column && d < depth) {
                next_x[j] = conv.under(image + c * conv.in_plane(), conv.row_under(p, r),
                                       conv.column_under(q, d % conv.kernel_w));
            }
        }
        load_four(next_w, w_row, slab * kSlab + w_depth, has_row ? depth : 0);
    };

    float sum[2][2][4][4] = {};  // patches 64 apart, so that neighbouring threads read neighbours
    const int slabs = (depth + kSlab - 1) / kSlab;
    fetch(0);
    for (int s = 0; s < slabs; ++s) {
        const int half = s % 2;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            reinterpret_cast<float*>(slab_x[half][t / kTile + 2 * j])[t % kTile] = next_x[j];
            reinterpret_cast<float*>(slab_w[half][w_depth + j])[w_k] = next_w[j];
        }
        __syncthreads();  // also keeps this half untouched until everyone is two slabs further
        if (s + 1 < slabs) fetch(s + 1);
#pragma unroll
        for (int d = 0; d < kSlab; ++d) {
            const float4 w_low = slab_w[half][d][ty], w_high = slab_w[half][d][ty + 16];
            const float4 x_low = slab_x[half][d][tx], x_high = slab_x[half][d][tx + 16];
            multiply_patch(sum[0][0], w_low, x_low);
            multiply_patch(sum[0][1], w_low, x_high);
            multiply_patch(sum[1][0], w_high, x_low);
            multiply_patch(sum[1][1], w_high, x_high);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = first_k + i / 4 * 64 + ty * 4 + i % 4;
        if (row >= group_out) break;
        const int k = group * group_out + row;
        const float shift = bias ? bias[k] : 0.0f;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float out[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) out[j] = sum[i / 4][half][i % 4][j] + shift;
            store_positions(y, out, conv.out_plane(), conv.out_channels, conv.batch, k,
                            first + half * 64 + tx * 4);
        }
    }
}
