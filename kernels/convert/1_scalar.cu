// Conversion between float and half or bfloat16, rung 1 of 3: one number per thread.
// Rounds to nearest even, as PyTorch does. A warp's request for 32 floats fills 4 sectors, its
// store of 32 halves only 2: half of what a request can carry.
//
// x [n], y [n]        launch: grid (anything), block (anything)
// This kernel: f32 to f16. Others: from_half, to_bfloat16, from_bfloat16.
// Counter: read global.x sectors/request = 4
// Counter: write global.y sectors/request = 2
// Counter: write global.y bytes/lane = 2
#include "lab.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class From, class To>
__device__ __forceinline__ void convert(const From* x, To* y, long long n) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        y[i] = static_cast<To>(static_cast<float>(x[i]));
    }
}

extern "C" __global__ void convert_1_scalar(const float* __restrict__ x, __half* __restrict__ y,
                                            long long n) {
    convert(x, y, n);
}

extern "C" __global__ void convert_1_scalar_from_half(const __half* __restrict__ x,
                                                      float* __restrict__ y, long long n) {
    convert(x, y, n);
}

extern "C" __global__ void convert_1_scalar_to_bfloat16(const float* __restrict__ x,
                                                        __nv_bfloat16* __restrict__ y,
                                                        long long n) {
    convert(x, y, n);
}

extern "C" __global__ void convert_1_scalar_from_bfloat16(const __nv_bfloat16* __restrict__ x,
                                                          float* __restrict__ y, long long n) {
    convert(x, y, n);
}
