// Floats to halves or bfloat16s and back: two as one register, four in one access.
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

// The i-th four of neighbours in one access, 16 bytes of floats or 8 of halves or bfloat16s.
__device__ __forceinline__ float4 four_at(const float* from, long long i = 0) {
    return reinterpret_cast<const float4*>(from)[i];
}
template <class T>
__device__ __forceinline__ float4 four_at(const T* from, long long i = 0) {
    const uint2 bits = reinterpret_cast<const uint2*>(from)[i];
    const T* four = reinterpret_cast<const T*>(&bits);
    return make_float4(four[0], four[1], four[2], four[3]);
}
__device__ __forceinline__ void put_four(float4 four, float* to, long long i = 0) {
    reinterpret_cast<float4*>(to)[i] = four;
}
template <class T>
__device__ __forceinline__ void put_four(float4 four, T* to, long long i = 0) {
    __align__(8) T rounded[4] = {T(four.x), T(four.y), T(four.z), T(four.w)};
    reinterpret_cast<uint2*>(to)[i] = *reinterpret_cast<const uint2*>(rounded);
}
