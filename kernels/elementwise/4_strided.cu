// out = a + alpha * b, rung 4 of 4: any strides, so views and broadcasts need no copy.
// A thread turns its number into an index per dimension and each index into three offsets. A
// stride of 0 is a broadcast: all lanes read one address, one sector instead of four.
//
// sizes [dims], strides [3, dims] in elements, innermost dimension first; dims <= 8
// a, b, out f32, at any strides        launch: grid (ceil(n / 256)), block (256)
// Counter: write global.out sectors/request = 4
// Counter: read global.b sectors/request = 1
#include "lab.cuh"

constexpr int kMaxDims = 8;
struct Layout {
    int dims;
    long long sizes[kMaxDims];
    long long strides[3][kMaxDims];
};

extern "C" __global__ void elementwise_4_strided(const float* a, const float* b, float* out,
                                                 float alpha, long long n, Layout layout) {
    long long rest = global_thread();
    if (rest >= n) return;
    long long offset_a = 0, offset_b = 0, offset_out = 0;
    for (int d = 0; d < layout.dims; ++d) {
        const long long index = rest % layout.sizes[d];
        rest /= layout.sizes[d];
        offset_out += index * layout.strides[0][d];
        offset_a += index * layout.strides[1][d];
        offset_b += index * layout.strides[2][d];
    }
    out[offset_out] = a[offset_a] + alpha * b[offset_b];
}
