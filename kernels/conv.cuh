// What the convolution kernels share: the sizes of a problem and where its elements lie.
#pragma once
#include "lab.cuh"

// x [batch, in_channels, height, width], w [out_channels, in_channels / groups, kernel_h, kernel_w],
// y [batch, out_channels, out_height, out_width]; contiguous. Padding at the far edges shows only
// in out_height and out_width, so it may differ from pad_h and pad_w.
struct Conv2d {
    int batch, in_channels, height, width;
    int out_channels, out_height, out_width;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;

    __device__ __forceinline__ int taps() const { return kernel_h * kernel_w; }
    __device__ __forceinline__ int in_per_group() const { return in_channels / groups; }
    __device__ __forceinline__ int out_per_group() const { return out_channels / groups; }
    __device__ __forceinline__ long long in_plane() const {
        return static_cast<long long>(height) * width;
    }
    __device__ __forceinline__ long long out_plane() const {
        return static_cast<long long>(out_height) * out_width;
    }
    // The element of a plane of x that lies under an output and a tap; 0 in the padding.
    __device__ __forceinline__ float under(const float* plane, long long h, long long w) const {
        const bool inside = h >= 0 && h < height && w >= 0 && w < width;
        return inside ? plane[h * width + w] : 0.0f;
    }
    __device__ __forceinline__ long long row_under(int p, int r) const {
        return static_cast<long long>(p) * stride_h - pad_h + static_cast<long long>(r) * dilation_h;
    }
    __device__ __forceinline__ long long column_under(int q, int s) const {
        return static_cast<long long>(q) * stride_w - pad_w + static_cast<long long>(s) * dilation_w;
    }
};

// Four neighbours of a row, from `at` on; what lies past its end is 0.
__device__ __forceinline__ void load_four(float (&four)[4], const float* row, int at, int end) {
    if (at + 3 < end && is_aligned_for_float4(row + at)) {
        const float4 v = *reinterpret_cast<const float4*>(row + at);
        four[0] = v.x, four[1] = v.y, four[2] = v.z, four[3] = v.w;
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) four[j] = at + j < end ? row[at + j] : 0.0f;
}

// sum += column times row: 16 multiplications for two reads.
__device__ __forceinline__ void multiply_patch(float (&sum)[4][4], float4 column, float4 row) {
    const float left[4] = {column.x, column.y, column.z, column.w};
    const float right[4] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += left[i] * right[j];
    }
}

// Four outputs of channel k, at positions from `at` on that count on from image to image.
__device__ __forceinline__ void store_positions(float* y, const float (&out)[4], const Conv2d& conv,
                                                int k, long long at) {
    const long long plane = conv.out_plane(), positions = conv.batch * plane;
    if (at + 3 < positions && plane % 4 == 0) {  // then the four share an image
        float* to = y + (at / plane * conv.out_channels + k) * plane + at % plane;
        if (is_aligned_for_float4(to)) {
            *reinterpret_cast<float4*>(to) = make_float4(out[0], out[1], out[2], out[3]);
            return;
        }
    }
    for (int j = 0; j < 4 && at + j < positions; ++j) {
        const long long n = (at + j) / plane, rest = (at + j) % plane;
        y[(n * conv.out_channels + k) * plane + rest] = out[j];
    }
}
