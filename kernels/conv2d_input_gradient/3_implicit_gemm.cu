// 2-D convolution's gradient for x, rung 3 of 3: a matrix product, gathered on the way in.
// dx [C, N H W] = w turned [C, K R S] times a matrix that holds, per element of x, the gradients of
// the outputs above it. Each gathered gradient serves 64 channels where rung 2 read it for each.
// With a stride, most entries of that matrix are 0: those outputs do not exist.
//
// dy [N, K, P, Q], w [K, C / groups, R, S]  ->  dx [N, C, H, W]
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once.
// launch: grid (ceil(N H W / 64) * groups * ceil(C / groups / 64)), block (256)
// Counter: read global.dy lanes/product = 0.015625
// Counter: read shared.* lanes/output/K = 0.125
// Counter: write global.dx bytes/lane = 16
// Counter of bfloat16: read shared.* lanes/output/K = 0.125
// Counter of bfloat16: write global.dx bytes/lane = 8
#include "conv.cuh"

constexpr int kTile = 64, kSlab = 16;

template <class T>
__device__ __forceinline__ void input_gradient(const T* __restrict__ dy, const T* __restrict__ w,
                                               T* __restrict__ dx, Conv2d conv) {
    __shared__ float4 slab_w[2][kSlab][kTile / 4 + 1];  // [depth][c]
    __shared__ float4 slab_dy[2][kSlab][kTile / 4];     // [depth][position]
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int channels = conv.in_per_group(), group_out = conv.out_per_group();
    const int depth = group_out * conv.taps();
    const long long positions = conv.in_plane() * conv.batch;
    const int tiles_c = (channels + kTile - 1) / kTile;
    const int first_c = blockIdx.x % tiles_c * kTile;  // within the group
    const int group = blockIdx.x / tiles_c % conv.groups;
    const long long first = static_cast<long long>(blockIdx.x / tiles_c / conv.groups) * kTile;

    // A thread gathers one column of the slab of dy, and one depth of four rows of w.
    const long long column = first + t % kTile;
    const bool has_column = column < positions;
    const int n = column / conv.in_plane();
    const int h = column % conv.in_plane() / conv.width, v = column % conv.width;
    const T* image = dy + conv.y_plane(n, group * group_out);
    float next_dy[4], next_w[4];
    auto fetch = [&](int slab) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int d = slab * kSlab + t / kTile + 4 * j;
            const int k = d / conv.taps(), tap = d % conv.taps();
            const int p = conv.row_over(h, tap / conv.kernel_w);
            const int q = conv.column_over(v, tap % conv.kernel_w);
            const bool exists = has_column && d < depth && p >= 0 && q >= 0;
            next_dy[j] = 0.0f;
            if (exists) next_dy[j] = image[k * conv.out_plane() + 1LL * p * conv.out_width + q];
        }
        const int d = slab * kSlab + tx;
        const int k = d / conv.taps(), tap = d % conv.taps();
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int c = first_c + ty + 16 * j;
            const bool in = d < depth && c < channels;
            next_w[j] = 0.0f;
            if (in) next_w[j] = w[conv.w_taps(group * group_out + k, c) + tap];
        }
    };

    float sum[4][4] = {};
    const int slabs = (depth + kSlab - 1) / kSlab;
    fetch(0);
    for (int s = 0; s < slabs; ++s) {
        const int half = s % 2;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            reinterpret_cast<float*>(slab_dy[half][t / kTile + 4 * j])[t % kTile] = next_dy[j];
            reinterpret_cast<float*>(slab_w[half][tx])[ty + 16 * j] = next_w[j];
        }
        __syncthreads();  // also keeps this half untouched until everyone is two slabs further
        if (s + 1 < slabs) fetch(s + 1);
#pragma unroll
        for (int d = 0; d < kSlab; ++d) {
            multiply_patch(sum, slab_w[half][d][ty], slab_dy[half][d][tx]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (first_c + ty * 4 + i >= channels) break;
        const int c = group * channels + first_c + ty * 4 + i;
        store_positions(dx, sum[i], conv.in_plane(), conv.in_channels, conv.batch, c,
                        first + tx * 4);
    }
}

extern "C" __global__ void conv2d_input_gradient_3_implicit_gemm(const float* __restrict__ dy,
                                                                 const float* __restrict__ w,
                                                                 float* __restrict__ dx,
                                                                 Conv2d conv) {
    input_gradient(dy, w, dx, conv);
}

extern "C" __global__ void conv2d_input_gradient_3_implicit_gemm_half(
    const __half* __restrict__ dy, const __half* __restrict__ w, __half* __restrict__ dx,
    Conv2d conv) {
    input_gradient(dy, w, dx, conv);
}

extern "C" __global__ void conv2d_input_gradient_3_implicit_gemm_bfloat16(
    const __nv_bfloat16* __restrict__ dy, const __nv_bfloat16* __restrict__ w,
    __nv_bfloat16* __restrict__ dx, Conv2d conv) {
    input_gradient(dy, w, dx, conv);
}
