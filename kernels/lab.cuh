// What every rung may use: the same text for NVRTC, nvcc and the emulator.
#pragma once

constexpr int kWarpSize = 32;
constexpr unsigned kFullMask = 0xffffffffu;
constexpr float kLowestFloat = -3.402823466e+38f;

// 64 bits: a grid of 2^31 blocks has more threads than an int can count.
__device__ __forceinline__ long long global_thread() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ long long grid_threads() {
    return static_cast<long long>(gridDim.x) * blockDim.x;
}

// Where a row starts in [outer, cols, inner], for a row per (outer, inner) pair: its elements lie
// `inner` apart. inner is 1 for rows along the last dimension.
__device__ __forceinline__ long long row_start(long long row, long long cols, long long inner) {
    return row / inner * cols * inner + row % inner;
}

// Where element i of channel c lies in [N, C, S], counting the channel's N * S elements in order.
__device__ __forceinline__ long long channel_offset(long long i, long long c, long long C,
                                                    long long S) {
    return (i / S * C + c) * S + i % S;
}

// Lane 0 holds the sum of all 32 lanes; every lane of the warp must call.
__device__ __forceinline__ float warp_reduce_sum(float value) {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
        value += __shfl_down_sync(kFullMask, value, step);
    }
    return value;
}

// Thread 0 holds the sum of the block; every thread must call, the block is whole warps.
__device__ __forceinline__ float block_reduce_sum(float value) {
    __shared__ float partial[kWarpSize];
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
    value = warp_reduce_sum(value);
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    const int warps = blockDim.x / kWarpSize;
    if (warp == 0) value = warp_reduce_sum(lane < warps ? partial[lane] : 0.0f);
    return value;
}

struct Add {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The value of the lane whose number differs by the bits of `bits`. A struct that is reduced below
// brings its own overload, member by member: the hardware moves registers, not structs.
__device__ __forceinline__ float shuffle_xor(float value, int bits) {
    return __shfl_xor_sync(kFullMask, value, bits);
}

// Every lane holds the merge of all 32 lanes' values; every lane of the warp must call.
template <class Value, class Merge>
__device__ __forceinline__ Value warp_all_reduce(Value value, Merge merge) {
    for (int bits = kWarpSize / 2; bits > 0; bits /= 2) {
        value = merge(value, shuffle_xor(value, bits));
    }
    return value;
}

// Every thread holds the merge of the block's values; every thread must call, the block is whole
// warps, and `nothing` merged with any value leaves that value.
template <class Value, class Merge>
__device__ __forceinline__ Value block_all_reduce(Value value, Value nothing, Merge merge) {
    __shared__ Value partial[kWarpSize];
    const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
    const int warps = blockDim.x / kWarpSize;
    value = warp_all_reduce(value, merge);
    __syncthreads();  // slower warps may still read what an earlier call left here
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    return warp_all_reduce(lane < warps ? partial[lane] : nothing, merge);
}

// A float4 may be read or written here only at addresses that are multiples of 16.
__device__ __forceinline__ bool is_aligned_for_float4(const void* address) {
    return reinterpret_cast<unsigned long long>(address) % sizeof(float4) == 0;
}
