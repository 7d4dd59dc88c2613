// 2-D convolution's gradient for w, rung 3 of 3: a matrix product with a very long inner side.
// dw [K, C R S] = dy [K, N P Q] times the matrix of x that the forward product had, turned. In
// 64x64 tiles each dy serves 64 weights. dw alone has too few tiles to fill a device, so the inner
// side is cut into chunks: a block leaves its part of the sums in `partial`, and a second kernel
// adds them up in order, so that the result is the same every time.
//
// x [N, C, H, W], dy [N, K, P, Q]  ->  partial [chunks, K, C / groups, R, S]  ->  dw
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once.
// launch: grid (chunks * groups * ceil(K / groups / 64) * ceil(C / groups R S / 64)), block (256)
// chunk: positions per block, a multiple of 16
// launch of sum: grid (ceil(weights / 256)), block (256)
// Counter: read global.dy lanes/output/K = 0.015625
// Counter: read global.x lanes/output/K = 0.015625
// Counter: read shared.* lanes/output/K = 0.125
// Counter of sum: write global.dw sectors/request = 4
// Counter of bfloat16: read shared.* lanes/output/K = 0.125
// Counter of bfloat16_sum: write global.dw sectors/request = 2
#include "conv.cuh"

constexpr int kTile = 64, kSlab = 16;

template <class T>
__device__ __forceinline__ void parts_of_sums(const T* __restrict__ x, const T* __restrict__ dy,
                                              float* __restrict__ partial, Conv2d conv,
                                              long long chunk) {
    __shared__ float4 slab_dy[2][kSlab][kTile / 4 + 1];  // [position][k]
    __shared__ float4 slab_x[2][kSlab][kTile / 4 + 1];   // [position][column]
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int channels = conv.in_per_group(), group_out = conv.out_per_group();
    const int columns = channels * conv.taps();
    const int tiles_k = (group_out + kTile - 1) / kTile, tiles = (columns + kTile - 1) / kTile;
    int rest = blockIdx.x;
    const int first_k = rest % tiles_k * kTile;  // within the group
    const int first_column = (rest /= tiles_k) % tiles * kTile;
    const int group = (rest /= tiles) % conv.groups;
    const long long part = rest / conv.groups;
    const long long plane = conv.out_plane();
    const long long first = part * chunk, end = min(first + chunk, plane * conv.batch);

    // A thread looks at one position of the slab: its dy of four k, its x of four columns.
    int c[4], r[4], s[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int column = first_column + ty + 16 * j;
        c[j] = column / conv.taps();
        r[j] = column % conv.taps() / conv.kernel_w;
        s[j] = column % conv.kernel_w;
    }
    float next_dy[4], next_x[4];
    auto fetch = [&](long long slab) {
        const long long at = slab + tx;
        const long long n = at / plane;
        const int p = at % plane / conv.out_width, q = at % conv.out_width;
        const T* gradient = dy + conv.y_plane(n, group * group_out) + at % plane;
        const T* image = x + conv.x_plane(n, group * channels);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int k = first_k + ty + 16 * j;
            next_dy[j] = next_x[j] = 0.0f;
            if (at < end && k < group_out) next_dy[j] = gradient[k * plane];
            if (at < end && c[j] < channels) {
                next_x[j] = conv.under(image + c[j] * conv.in_plane(), conv.row_under(p, r[j]),
                                       conv.column_under(q, s[j]));
            }
        }
    };

    float sum[4][4] = {};
    fetch(first);
    int half = 0;
    for (long long slab = first; slab < end; slab += kSlab, half = 1 - half) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            reinterpret_cast<float*>(slab_dy[half][tx])[ty + 16 * j] = next_dy[j];
            reinterpret_cast<float*>(slab_x[half][tx])[ty + 16 * j] = next_x[j];
        }
        __syncthreads();  // also keeps this half untouched until everyone is two slabs further
        if (slab + kSlab < end) fetch(slab + kSlab);
#pragma unroll
        for (int d = 0; d < kSlab; ++d) {
            multiply_patch(sum, slab_dy[half][d][ty], slab_x[half][d][tx]);
        }
    }
    float* to = partial + part * conv.out_channels * columns;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int k = first_k + ty * 4 + i;
        if (k >= group_out) break;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int column = first_column + tx * 4 + j;
            const long long row = static_cast<long long>(group) * group_out + k;
            if (column < columns) to[row * columns + column] = sum[i][j];
        }
    }
}

extern "C" __global__ void conv2d_weight_gradient_3_implicit_gemm(const float* __restrict__ x,
                                                                  const float* __restrict__ dy,
                                                                  float* __restrict__ partial,
                                                                  Conv2d conv, long long chunk) {
    parts_of_sums(x, dy, partial, conv, chunk);
}

extern "C" __global__ void conv2d_weight_gradient_3_implicit_gemm_half(
    const __half* __restrict__ x, const __half* __restrict__ dy, float* __restrict__ partial,
    Conv2d conv, long long chunk) {
    parts_of_sums(x, dy, partial, conv, chunk);
}

extern "C" __global__ void conv2d_weight_gradient_3_implicit_gemm_bfloat16(
    const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ dy,
    float* __restrict__ partial, Conv2d conv, long long chunk) {
    parts_of_sums(x, dy, partial, conv, chunk);
}

extern "C" __global__ void conv2d_weight_gradient_3_implicit_gemm_sum(
    const float* __restrict__ partial, float* __restrict__ dw, long long weights, int chunks) {
    sum_parts(partial, dw, weights, chunks);
}

extern "C" __global__ void conv2d_weight_gradient_3_implicit_gemm_half_sum(
    const float* __restrict__ partial, __half* __restrict__ dw, long long weights, int chunks) {
    sum_parts(partial, dw, weights, chunks);
}

extern "C" __global__ void conv2d_weight_gradient_3_implicit_gemm_bfloat16_sum(
    const float* __restrict__ partial, __nv_bfloat16* __restrict__ dw, long long weights,
    int chunks) {
    sum_parts(partial, dw, weights, chunks);
}
