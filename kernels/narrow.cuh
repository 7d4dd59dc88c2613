// Two floats to two halves or bfloat16s and back, as one register.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lab.cuh"

__device__ __forceinline__ float2 widen(__half2 v) { return __half22float2(v); }
__device__ __forceinline__ float2 widen(__nv_bfloat162 v) { return __bfloat1622float2(v); }
__device__ __forceinline__ void narrow(float2 v, __half2& to) { to = __float22half2_rn(v); }
__device__ __forceinline__ void narrow(float2 v, __nv_bfloat162& to) {
    to = __float22bfloat162_rn(v);
}

__device__ __forceinline__ bool is_aligned(const void* address, int bytes) {
    return reinterpret_cast<unsigned long long>(address) % bytes == 0;
}
