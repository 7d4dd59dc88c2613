// 2-D convolution, rung 3 of 4: a matrix product whose right-hand side is never written down.
// y [K, N P Q] = w [K, C R S] times a matrix that holds, per column, the x under one output. Its
// tiles are gathered straight into shared memory, then all is as in the blocked matrix product: a
// 64x64 tile of y per block, 4x4 per thread, an eighth of a shared read per multiplication where
// rung 2 needed 3/8. Columns run on over rows and images, so small images fill a tile too.
//
// x [N, C, H, W], w [K, C / groups, R, S], bias [K] or null  ->  y [N, K, P, Q], contiguous
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once.
// launch: grid (ceil(N P Q / 64) * groups * ceil(K / groups / 64)), block (256)
// Counter: read global.x lanes/output/K = 0.015625
// Counter: read global.w bytes/lane = 16
// Counter: read shared.* lanes/output/K = 0.125
// Counter: write global.y bytes/lane = 16
// Counter of bfloat16: read global.w bytes/lane = 8
// Counter of bfloat16: read shared.* lanes/output/K = 0.125
// Counter of bfloat16: write global.y bytes/lane = 8
#include "conv.cuh"

constexpr int kTile = 64, kSlab = 16;

template <class T>
__device__ __forceinline__ void convolve(const T* __restrict__ x, const T* __restrict__ w,
                                         const T* __restrict__ bias, T* __restrict__ y,
                                         Conv2d conv) {
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
    const T* image = x + conv.x_plane(n, group * channels);
    const int w_k = t / 4, w_depth = t % 4 * 4;
    const T* w_row = w + conv.w_taps(group * group_out + first_k + w_k, 0);
    const bool has_row = first_k + w_k < group_out;
    float next_x[4], next_w[4];
    auto fetch = [&](int slab) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int d = slab * kSlab + t / kTile + 4 * j;
            const int c = d / conv.taps(), r = d % conv.taps() / conv.kernel_w;
            next_x[j] = 0.0f;
            if (has_column && d < depth) {
                next_x[j] = conv.under(image + c * conv.in_plane(), conv.row_under(p, r),
                                       conv.column_under(q, d % conv.kernel_w));
            }
        }
        load_four(next_w, w_row, slab * kSlab + w_depth, has_row ? depth : 0);
    };

    float sum[4][4] = {};
    const int slabs = (depth + kSlab - 1) / kSlab;
    fetch(0);
    for (int s = 0; s < slabs; ++s) {
        const int half = s % 2;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            reinterpret_cast<float*>(slab_x[half][t / kTile + 4 * j])[t % kTile] = next_x[j];
            reinterpret_cast<float*>(slab_w[half][w_depth + j])[w_k] = next_w[j];
        }
        __syncthreads();  // also keeps this half untouched until everyone is two slabs further
        if (s + 1 < slabs) fetch(s + 1);
#pragma unroll
        for (int d = 0; d < kSlab; ++d) {
            multiply_patch(sum, slab_w[half][d][ty], slab_x[half][d][tx]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (first_k + ty * 4 + i >= group_out) break;
        const int k = group * group_out + first_k + ty * 4 + i;
        const float shift = bias ? static_cast<float>(bias[k]) : 0.0f;
        float out[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) out[j] = sum[i][j] + shift;
        store_positions(y, out, conv.out_plane(), conv.out_channels, conv.batch, k,
                        first + tx * 4);
    }
}

extern "C" __global__ void conv2d_3_implicit_gemm(const float* __restrict__ x,
                                                  const float* __restrict__ w,
                                                  const float* __restrict__ bias,
                                                  float* __restrict__ y, Conv2d conv) {
    convolve(x, w, bias, y, conv);
}

extern "C" __global__ void conv2d_3_implicit_gemm_half(const __half* __restrict__ x,
                                                          const __half* __restrict__ w,
                                                          const __half* __restrict__ bias,
                                                          __half* __restrict__ y, Conv2d conv) {
    convolve(x, w, bias, y, conv);
}

extern "C" __global__ void conv2d_3_implicit_gemm_bfloat16(const __nv_bfloat16* __restrict__ x,
                                                           const __nv_bfloat16* __restrict__ w,
                                                           const __nv_bfloat16* __restrict__ bias,
                                                           __nv_bfloat16* __restrict__ y,
                                                           Conv2d conv) {
    convolve(x, w, bias, y, conv);
}
