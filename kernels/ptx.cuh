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

// What follows is Hopper's: four warps multiply together, reading both sides from shared memory.

// A matrix in shared memory, in rows of 128 bytes from a multiple of 1024 on, eight rows after
// eight; the 16-byte pieces of row r are exchanged by r % 8 (the 128-byte swizzle).
using MatrixView = unsigned long long;

__device__ __forceinline__ MatrixView view_of(const void* shared) {
    const unsigned long long start = (shared_address(shared) & 0x3ffff) >> 4;
    const unsigned long long eight_rows = 1024 >> 4, swizzle_128 = 1ULL << 62;
    return start | eight_rows << 16 | eight_rows << 32 | swizzle_128;
}

__device__ __forceinline__ MatrixView advanced(MatrixView view, int bytes) {
    return view + (bytes >> 4);
}

// This thread's writes to shared memory are seen by the tensor cores, which read it by another way.
__device__ __forceinline__ void show_to_tensor_cores() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Around products: registers are handed over, what was sent off is one group, and all is done.
__device__ __forceinline__ void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void close_product_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// sum [64, 64] += a [64, 16] times b [16, 64]; a view's rows are rows of a and of b. Warp w of the
// four holds rows 16 w to 16 w + 15, laid out in every eight columns as in multiply_16x8x16.
__device__ __forceinline__ void multiply_64x64x16(float (&sum)[32], MatrixView a, MatrixView b,
                                                  __half) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 1, 1, 1, 0, 1;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]),
          "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]),
          "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]),
          "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]),
          "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]),
          "+f"(sum[31])
        : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_64x64x16(float (&sum)[32], MatrixView a, MatrixView b,
                                                  __nv_bfloat16) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 1, 1, 1, 0, 1;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]),
          "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]),
          "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]),
          "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]),
          "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]),
          "+f"(sum[31])
        : "l"(a), "l"(b));
}
