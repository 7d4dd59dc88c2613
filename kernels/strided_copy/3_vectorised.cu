// Strided copy, rung 3 of 3: four elements per thread on both sides of the tile.
// Along its fast dimension x is read by float4, and y written by float4: a quarter of rung 2's
// requests, 16 sectors each. The tile's rows of 33 are touched float by float. Where a side's fast
// stride is not 1, or four neighbours do not start at a multiple of 16 bytes, they go one by one.
//
// x and y of one shape, at any strides in elements; layout as in rung 2
// launch: grid (ceil(size0 / 32) * ceil(size1 / 32) * others), block (8, 32)
// Counter: read global.x sectors/request = 16
// Counter: write global.y sectors/request = 16
// Counter: read shared.tile wavefronts/request = 1
// Counter: write shared.tile wavefronts/request = 1
#include "lab.cuh"

constexpr int kMaxDims = 8;
struct Layout {
    int dims;
    long long sizes[kMaxDims], x_strides[kMaxDims], y_strides[kMaxDims];
};

// Four elements at a stride, as one load where that is possible; count of them exist.
__device__ __forceinline__ float4 load_four(const float* from, long long stride, long long count) {
    if (count >= 4 && stride == 1 && is_aligned_for_float4(from)) {
        return *reinterpret_cast<const float4*>(from);
    }
    float four[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < count) four[i] = from[i * stride];
    }
    return make_float4(four[0], four[1], four[2], four[3]);
}

__device__ __forceinline__ void store_four(float* to, long long stride, long long count, float4 v) {
    if (count >= 4 && stride == 1 && is_aligned_for_float4(to)) {
        *reinterpret_cast<float4*>(to) = v;
        return;
    }
    const float four[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < count) to[i * stride] = four[i];
    }
}

extern "C" __global__ void strided_copy_3_vectorised(const float* __restrict__ x,
                                                     float* __restrict__ y, Layout layout,
                                                     bool turned) {
    __shared__ float tile[32][33];
    const int four = threadIdx.x * 4, line = threadIdx.y;
    const long long across = (layout.sizes[0] + 31) / 32, down = (layout.sizes[1] + 31) / 32;
    const long long first = blockIdx.x % across * 32, second = blockIdx.x / across % down * 32;
    long long rest = blockIdx.x / across / down, from = 0, to = 0;
    for (int d = 2; d < layout.dims; ++d) {
        const long long index = rest % layout.sizes[d];
        rest /= layout.sizes[d];
        from += index * layout.x_strides[d];
        to += index * layout.y_strides[d];
    }
    const long long x_i = layout.x_strides[0], x_j = layout.x_strides[1];
    const long long y_i = layout.y_strides[0], y_j = layout.y_strides[1];
    const long long i = first + four, j = second + line;  // of this thread's four in y
    const long long left = j < layout.sizes[1] ? layout.sizes[0] - i : 0;
    if (!turned) {  // uniform in the grid
        const float4 v = load_four(x + from + i * x_i + j * x_j, x_i, left);
        store_four(y + to + i * y_i + j * y_j, y_i, left, v);
        return;
    }
    if (first + line < layout.sizes[0]) {
        const float* row = x + from + (first + line) * x_i + (second + four) * x_j;
        const float4 v = load_four(row, x_j, layout.sizes[1] - second - four);
        tile[line][four] = v.x, tile[line][four + 1] = v.y;
        tile[line][four + 2] = v.z, tile[line][four + 3] = v.w;
    }
    __syncthreads();
    if (left <= 0) return;
    float v[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) v[n] = n < left ? tile[four + n][line] : 0.0f;
    store_four(y + to + i * y_i + j * y_j, y_i, left, make_float4(v[0], v[1], v[2], v[3]));
}
