// Instructions that CUDA C++ has no name for, as functions. For a GPU only: the emulator compiles
// C++, and refuses PTX by name.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lab.cuh"

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Sixteen bytes on their way from global to shared memory, without a register in between. Both
// addresses are multiples of 16; of the sixteen, `bytes` are read, the rest is written as 0.
__device__ __forceinline__ void copy_async(void* shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(global), "r"(bytes)
                 : "memory");
}

// What this thread has sent on its way since the last call is one group.
__device__ __forceinline__ void close_copy_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// All groups of this thread but the last `open` have arrived; a barrier makes others see them.
template <int open>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

// Four 8x8 matrices of 16-bit elements: lane 8 m + r names row r of matrix m. Afterwards a lane's
// word m holds row lane / 4, columns 2 (lane % 4) and the next, of matrix m.
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same, rows and columns of each matrix exchanged.
__device__ __forceinline__ void load_matrices_turned(unsigned (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// sum [16, 8] += a [16, 16] times b [16, 8]. A lane holds, with g = lane / 4 and t = lane % 4:
// sum: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1); a: the four 8x8 quarters, first the left
// two from above; b: the upper and the lower half, turned.
__device__ __forceinline__ void multiply_16x8x16(float (&sum)[4], const unsigned (&a)[4],
                                                 unsigned b_upper, unsigned b_lower, __half) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_upper), "r"(b_lower));
}

__device__ __forceinline__ void multiply_16x8x16(float (&sum)[4], const unsigned (&a)[4],
                                                 unsigned b_upper, unsigned b_lower,
                                                 __nv_bfloat16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_upper), "r"(b_lower));
}
