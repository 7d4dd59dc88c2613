// What every rung may use: the same text for NVRTC, nvcc and the emulator.
#pragma once

constexpr int kWarpSize = 32;
constexpr unsigned kFullMask = 0xffffffffu;

// 64 bits: a grid of 2^31 blocks has more threads than an int can count.
__device__ __forceinline__ long long global_thread() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ long long grid_threads() {
    return static_cast<long long>(gridDim.x) * blockDim.x;
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

// A float4 may be read or written here only at addresses that are multiples of 16.
__device__ __forceinline__ bool is_aligned_for_float4(const void* address) {
    return reinterpret_cast<unsigned long long>(address) % sizeof(float4) == 0;
}
