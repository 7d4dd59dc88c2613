// What the convolution kernels share: the sizes of a problem and where its elements lie.
#pragma once
#include "lab.cuh"
#include "narrow.cuh"

// x [batch, in_channels, height, width], y [batch, out_channels, out_height, out_width],
// w [out_channels, in_channels / groups, kernel_h, kernel_w], all contiguous. Padding at the far
// edges shows only in out_height and out_width, so it may differ from pad_h and pad_w.
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
    // Where a channel's plane of x and of y starts, and a channel's taps in w.
    __device__ __forceinline__ long long x_plane(long long n, int c) const {
        return (n * in_channels + c) * in_plane();
    }
    __device__ __forceinline__ long long y_plane(long long n, int k) const {
        return (n * out_channels + k) * out_plane();
    }
    __device__ __forceinline__ long long w_taps(long long k, int c) const {
        return (k * in_per_group() + c) * taps();
    }
    __device__ __forceinline__ long long out_plane() const {
        return static_cast<long long>(out_height) * out_width;
    }
    // The element of a plane of x that lies under an output and a tap; 0 in the padding.
    template <class T>
    __device__ __forceinline__ float under(const T* plane, long long h, long long w) const {
        const bool inside = h >= 0 && h < height && w >= 0 && w < width;
        return inside ? static_cast<float>(plane[h * width + w]) : 0.0f;
    }
    __device__ __forceinline__ long long row_under(int p, int r) const {
        return 1LL * p * stride_h - pad_h + 1LL * r * dilation_h;
    }
    __device__ __forceinline__ long long column_under(int q, int s) const {
        return 1LL * q * stride_w - pad_w + 1LL * s * dilation_w;
    }
    // The other way: the output whose tap r (or s) lies on row h (or column w) of x, -1 if none.
    __device__ __forceinline__ int row_over(int h, int r) const {
        return steps(1LL * h + pad_h - 1LL * r * dilation_h, stride_h, out_height);
    }
    __device__ __forceinline__ int column_over(int w, int s) const {
        return steps(1LL * w + pad_w - 1LL * s * dilation_w, stride_w, out_width);
    }
    // How many strides fit into a distance, when they do so exactly and are below `count`; else -1.
    static __device__ __forceinline__ int steps(long long distance, unsigned stride, int count) {
        if (distance < 0) return -1;
        const unsigned at = distance, step = at / stride;  // below 2^32: 64 bits divide slowly
        return step * stride == at && step < static_cast<unsigned>(count) ? step : -1;
    }
};

// Four neighbours of a row, from `at` on; what lies past its end is 0.
template <class T>
__device__ __forceinline__ void load_four(float (&four)[4], const T* row, int at, int end) {
    if (at + 3 < end && is_aligned(row + at, 4 * sizeof(T))) {
        const float4 v = four_at(row + at);
        four[0] = v.x, four[1] = v.y, four[2] = v.z, four[3] = v.w;
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) four[j] = at + j < end ? static_cast<float>(row[at + j]) : 0.0f;
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

// Four values of one channel, at positions from `at` on that count on from image to image.
template <class T>
__device__ __forceinline__ void store_positions(T* to, const float (&values)[4], long long plane,
                                                int channels, int batch, int channel,
                                                long long at) {
    const long long positions = plane * batch;
    if (at + 3 < positions && plane % 4 == 0) {  // then the four share an image
        T* first = to + (at / plane * channels + channel) * plane + at % plane;
        if (is_aligned(first, 4 * sizeof(T))) {
            put_four(make_float4(values[0], values[1], values[2], values[3]), first);
            return;
        }
    }
    for (int j = 0; j < 4 && at + j < positions; ++j) {
        const long long image = (at + j) / plane, rest = (at + j) % plane;
        to[(image * channels + channel) * plane + rest] = T(values[j]);
    }
}

// The parts that blocks left of a weight's gradient, added up in order.
template <class T>
__device__ __forceinline__ void sum_parts(const float* partial, T* dw, long long weights,
                                          int chunks) {
    const long long i = global_thread();
    if (i >= weights) return;
    float sum = 0.0f;
    for (int part = 0; part < chunks; ++part) sum += partial[part * weights + i];
    dw[i] = T(sum);
}

// What a bias and a batch norm in inference do to a channel: v * scale + shift.
struct Affine {
    float scale, shift;
};

// bias, gamma and beta may be null: none, ones and zeros.
__device__ __forceinline__ Affine batch_norm_of(int k, const float* bias, const float* gamma,
                                                const float* beta, const float* mean,
                                                const float* variance, float epsilon) {
    const float scale = (gamma ? gamma[k] : 1.0f) / sqrtf(variance[k] + epsilon);
    const float centre = (bias ? bias[k] : 0.0f) - mean[k];
    return {scale, centre * scale + (beta ? beta[k] : 0.0f)};
}
