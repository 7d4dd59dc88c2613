// What the functions of kernels/ptx.cuh do, from the PTX manual, in CUDA C++ that the emulator runs:
// a rung for the GPU alone is tested here in everything but the instructions' own text.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lab.cuh"

__device__ __forceinline__ void copy_async(void* shared, const void* global, int bytes) {
    if (reinterpret_cast<unsigned long long>(shared) % 16 != 0) __trap();
    if (reinterpret_cast<unsigned long long>(global) % 16 != 0) __trap();
    if (bytes == 16) {
        *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(global);
        return;
    }
    unsigned short* to = reinterpret_cast<unsigned short*>(shared);
    const unsigned short* from = reinterpret_cast<const unsigned short*>(global);
    for (int i = 0; i < 8; ++i) to[i] = 2 * i < bytes ? from[i] : 0;
}
__device__ __forceinline__ void close_copy_group() {}
template <int open> __device__ __forceinline__ void wait_for_copies() {}

__device__ __forceinline__ const unsigned short* row_of(const void* row, int lane) {
    const unsigned long long mine = reinterpret_cast<unsigned long long>(row);
    return reinterpret_cast<const unsigned short*>(__shfl_sync(kFullMask, mine, lane));
}
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], const void* row) {
    const int lane = threadIdx.x % 32;
    for (int m = 0; m < 4; ++m) {
        const unsigned short* from = row_of(row, 8 * m + lane / 4);
        words[m] = *reinterpret_cast<const unsigned*>(from + lane % 4 * 2);
    }
}
__device__ __forceinline__ void load_matrices_turned(unsigned (&words)[4], const void* row) {
    const int lane = threadIdx.x % 32;
    for (int m = 0; m < 4; ++m) {
        const unsigned low = row_of(row, 8 * m + lane % 4 * 2)[lane / 4];
        const unsigned high = row_of(row, 8 * m + lane % 4 * 2 + 1)[lane / 4];
        words[m] = low | high << 16;
    }
}

__device__ __forceinline__ float element(unsigned word, int half, __half) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(word >> 16 * half)));
}
__device__ __forceinline__ float element(unsigned word, int half, __nv_bfloat16) {
    return __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(word >> 16 * half)));
}
template <class T>
__device__ __forceinline__ void multiply_16x8x16(float (&sum)[4], const unsigned (&a)[4],
                                                 unsigned b_upper, unsigned b_lower, T type) {
    const int lane = threadIdx.x % 32;
    for (int k = 0; k < 16; ++k) {
        // The quarter of A that holds (row, k) and the half of B that holds (k, column).
        const int k_lane = k % 8 / 2, below = k / 8;
        float left[2], right[2];
        for (int half = 0; half < 2; ++half) {
            const unsigned word = __shfl_sync(kFullMask, a[2 * below + half], lane / 4 * 4 + k_lane);
            left[half] = element(word, k % 2, type);
            const int column = lane % 4 * 2 + half;
            const unsigned turned =
                __shfl_sync(kFullMask, below ? b_lower : b_upper, column * 4 + k_lane);
            right[half] = element(turned, k % 2, type);
        }
        for (int e = 0; e < 4; ++e) sum[e] += left[e / 2] * right[e % 2];
    }
}

using MatrixView = unsigned long long;
__device__ __forceinline__ MatrixView view_of(const void* shared) {
    const MatrixView address = reinterpret_cast<MatrixView>(shared);
    if (address % 1024 != 0) __trap();
    return address;
}
__device__ __forceinline__ MatrixView advanced(MatrixView view, int bytes) { return view + bytes; }
__device__ __forceinline__ void show_to_tensor_cores() {}
__device__ __forceinline__ void begin_products() {}
__device__ __forceinline__ void close_product_group() {}
__device__ __forceinline__ void wait_for_products() {}

// The hardware exchanges bits 4 to 6 of the address by bits 7 to 9.
template <class T> __device__ __forceinline__ float element(MatrixView view, int row, int column) {
    const MatrixView plain = view + row * 128 + column * 2;
    return static_cast<float>(*reinterpret_cast<const T*>(plain ^ (plain >> 7 & 7) << 4));
}
template <class T>
__device__ __forceinline__ void multiply_64x64x16(float (&sum)[32], MatrixView a, MatrixView b, T) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    for (int i = 0; i < 32; ++i) {
        const int row = warp * 16 + lane / 4 + i % 4 / 2 * 8;
        const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k) sum[i] += element<T>(a, row, k) * element<T>(b, k, column);
    }
}
