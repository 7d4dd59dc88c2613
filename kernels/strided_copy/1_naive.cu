// Strided copy, rung 1 of 3: one element per thread, in the order of y.
// Lanes are neighbours in y. Where x lies in another order, as NCHW does under NHWC, their loads
// are a whole plane apart: 32 sectors a request for 128 bytes. And every thread divides its way
// through all dimensions.
//
// x and y of one shape, at any strides in elements; layout: innermost dimension first
// launch: grid (ceil(n / 256)), block (256)
// Counter: read global.x sectors/request = 32
// Counter: write global.y sectors/request = 4
#include "lab.cuh"

constexpr int kMaxDims = 8;
struct Layout {
    int dims;
    long long sizes[kMaxDims], x_strides[kMaxDims], y_strides[kMaxDims];
};

extern "C" __global__ void strided_copy_1_naive(const float* __restrict__ x, float* __restrict__ y,
                                                long long n, Layout layout) {
    long long rest = global_thread(), from = 0, to = 0;
    if (rest >= n) return;
    for (int d = 0; d < layout.dims; ++d) {
        const long long index = rest % layout.sizes[d];
        rest /= layout.sizes[d];
        from += index * layout.x_strides[d];
        to += index * layout.y_strides[d];
    }
    y[to] = x[from];
}
