// Windows of 2-D pooling: which inputs an output covers, and which outputs cover an input.
#pragma once
#include "lab.cuh"

struct Axis {
    long long in, out;
    int kernel, stride, padding, dilation;
};

struct Pool {
    long long planes;  // N * C
    Axis h, w;
    bool count_include_pad;  // for averages
    int divisor;             // for averages: instead of the count; 0 for the count
};

struct Range {
    long long first, end;
};

// The inputs of output o, in steps of the dilation; what lies in the padding is left out.
__device__ __forceinline__ Range window_of(long long o, Axis axis) {
    long long first = o * axis.stride - axis.padding;
    const long long end = min(first + (axis.kernel - 1LL) * axis.dilation + 1, axis.in);
    if (first < 0) first += (axis.dilation - 1 - first) / axis.dilation * axis.dilation;
    return {first, end};
}

// The outputs whose window reaches over input i, or, with a dilation, past it.
__device__ __forceinline__ Range outputs_over(long long i, Axis axis) {
    const long long at = i + axis.padding, reach = (axis.kernel - 1LL) * axis.dilation + 1;
    return {at < reach ? 0 : (at - reach) / axis.stride + 1, min(at / axis.stride + 1, axis.out)};
}

// A dilation can step over the whole input: such a window covers padding alone.
__device__ __forceinline__ bool covers_inputs(long long oh, long long ow, Pool pool) {
    const Range rows = window_of(oh, pool.h), cols = window_of(ow, pool.w);
    return rows.first < rows.end && cols.first < cols.end;
}

// Inputs in output o's window, padding included, but not what ceil_mode hangs out beyond it.
__device__ __forceinline__ long long padded_count(long long o, Axis axis) {
    const long long first = o * axis.stride - axis.padding;
    return min(first + axis.kernel, axis.in + axis.padding) - first;
}

// What the sum over a window is divided by.
__device__ __forceinline__ float divisor_of(long long oh, long long ow, Pool pool) {
    if (pool.divisor) return pool.divisor;
    if (pool.count_include_pad) return padded_count(oh, pool.h) * padded_count(ow, pool.w);
    const Range rows = window_of(oh, pool.h), cols = window_of(ow, pool.w);
    return (rows.end - rows.first) * (cols.end - cols.first);
}

// A thread block computes 8 rows of 32 outputs; this is the patch of input they need.
constexpr int kTileRows = 8, kTileCols = 32;

__device__ __forceinline__ long long patch_size(int outputs, Axis axis) {
    return (outputs - 1LL) * axis.stride + (axis.kernel - 1LL) * axis.dilation + 1;
}

struct Patch {
    long long top, left, rows, cols;  // top and left may lie in the padding

    __device__ long long at(long long h, long long w) const {
        return (h - top) * cols + (w - left);
    }
};

__device__ __forceinline__ Patch patch_of(long long first_oh, long long first_ow, Pool pool) {
    return {first_oh * pool.h.stride - pool.h.padding, first_ow * pool.w.stride - pool.w.padding,
            patch_size(kTileRows, pool.h), patch_size(kTileCols, pool.w)};
}

// The patch is in shared memory; every thread must call. What lies in the padding is not written.
__device__ __forceinline__ void load_patch(const float* plane, float* shared, Patch patch,
                                           Pool pool) {
    __syncthreads();  // slower threads may still read the patch before
    for (long long i = threadIdx.x; i < patch.rows * patch.cols; i += blockDim.x) {
        const long long h = patch.top + i / patch.cols, w = patch.left + i % patch.cols;
        const bool inside = h >= 0 && h < pool.h.in && w >= 0 && w < pool.w.in;
        if (inside) shared[i] = plane[h * pool.w.in + w];
    }
    __syncthreads();
}

struct Highest {
    float value;
    long long index;  // in its plane
};

// Before the first input: PyTorch starts at minus infinity, at the window's first index.
__device__ __forceinline__ Highest lowest_at(long long index) {
    return {-__int_as_float(0x7f800000), index};
}

// PyTorch's rule: the first of equals wins, and NaN beats everything.
__device__ __forceinline__ void take(Highest& best, float value, long long index) {
    if (value > best.value || value != value) best = {value, index};
}
