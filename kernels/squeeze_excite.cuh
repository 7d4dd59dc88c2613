// The two small products of squeeze-excite, by one block.
#pragma once
#include "lab.cuh"

// out[row] = activation(weights[row, :] times in + bias[row]): a warp takes a row, so its lanes
// read neighbouring weights. `in` and `out` may be shared memory; every thread must call.
template <class Activation>
__device__ __forceinline__ void small_product(const float* weights, const float* bias,
                                              const float* in, float* out, long long rows,
                                              long long cols, Activation activation) {
    const int lane = threadIdx.x % kWarpSize, warps = blockDim.x / kWarpSize;
    for (long long row = threadIdx.x / kWarpSize; row < rows; row += warps) {
        float sum = 0.0f;
        for (long long c = lane; c < cols; c += kWarpSize) sum += weights[row * cols + c] * in[c];
        sum = warp_reduce_sum(sum);
        if (lane == 0) out[row] = activation(sum + (bias ? bias[row] : 0.0f));
    }
    __syncthreads();
}

struct Hidden {  // what stands between the two products
    bool silu;  // else ReLU
    __device__ float operator()(float value) const {
        return silu ? value / (1.0f + expf(-value)) : fmaxf(value, 0.0f);
    }
};
struct Sigmoid {
    __device__ float operator()(float value) const { return 1.0f / (1.0f + expf(-value)); }
};
