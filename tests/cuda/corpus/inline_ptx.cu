// Defects that are written in PTX are found where the statement stands.
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned lane_id() {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
__device__ __forceinline__ unsigned shared_place(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

//: clean 2 64 f:512 z:512
extern "C" __global__ void vectors_through_ptx(const float* x, float* y) {
    const int i = 4 * (blockIdx.x * 64 + threadIdx.x);
    float a, b, c, d;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + i));
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(y + i), "f"(d), "f"(c), "f"(b), "f"(a) : "memory");
}

//: out_of_bounds 2 64 f:512 z:510
extern "C" __global__ void vectors_past_the_end(const float* x, float* y) {
    const int i = 4 * (blockIdx.x * 64 + threadIdx.x);
    float a, b, c, d;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + i));
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(y + i), "f"(d), "f"(c), "f"(b), "f"(a) : "memory");  // BUG
}

//: clean 1 100 f:100 z:100 90
extern "C" __global__ void guarded_by_a_predicate(const float* x, float* y, int n) {
    float v = 0.0f;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.lt.s32 p, %2, %3;\n\t@p ld.global.f32 %0, [%1];\n\t}"
                 : "+f"(v) : "l"(x + threadIdx.x), "r"((int)threadIdx.x), "r"(n));
    y[threadIdx.x] = v;
}

//: out_of_bounds 1 100 f:90 z:100 90
extern "C" __global__ void predicate_off_by_one(const float* x, float* y, int n) {
    float v = 0.0f;
    asm volatile("{ .reg .pred p; setp.le.s32 p, %2, %3; @p ld.global.f32 %0, [%1]; }"  // BUG
                 : "+f"(v) : "l"(x + threadIdx.x), "r"((int)threadIdx.x), "r"(n));
    y[threadIdx.x] = v;
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void barrier_in_ptx(const float* x, float* y) {
    __shared__ float s[64];
    asm volatile("st.shared.f32 [%0], %1;" :: "r"(shared_place(&s[threadIdx.x])), "f"(x[threadIdx.x]) : "memory");
    asm volatile("bar.sync 0;" ::: "memory");
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(shared_place(&s[63 - threadIdx.x])));
    y[threadIdx.x] = v;
}

//: race 1 64 f:64 z:64
extern "C" __global__ void no_barrier_in_ptx(const float* x, float* y) {
    __shared__ float s[64];
    asm volatile("st.shared.f32 [%0], %1;" :: "r"(shared_place(&s[threadIdx.x])), "f"(x[threadIdx.x]) : "memory");
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(shared_place(&s[63 - threadIdx.x])));  // BUG
    y[threadIdx.x] = v;
}

//: barrier_divergence 1 64 z:64
extern "C" __global__ void barrier_in_ptx_for_some(float* y) {
    if (lane_id() < 16) {
        asm volatile("bar.sync 0;" ::: "memory");  // BUG
    }
    y[threadIdx.x] = 1.0f;
}

//: misaligned 1 32 h:256 z:64
extern "C" __global__ void matrix_rows_off_by_a_half(const __half* x, unsigned* y) {
    __shared__ __align__(16) __half s[264];
    for (int i = threadIdx.x; i < 264; i += 32) s[i] = x[i % 256];
    __syncwarp();
    unsigned a, b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"  // BUG
                 : "=r"(a), "=r"(b) : "r"(shared_place(&s[threadIdx.x % 16 * 9])));
    y[threadIdx.x] = a, y[threadIdx.x + 32] = b;
}

//: race 1 32 h:256 z:64
extern "C" __global__ void matrix_loaded_before_it_is_there(const __half* x, unsigned* y) {
    __shared__ __align__(16) __half s[16][8];
    for (int i = threadIdx.x; i < 128; i += 32) s[i / 8][i % 8] = x[i];
    unsigned a, b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(shared_place(s[threadIdx.x % 16])));  // BUG
    y[threadIdx.x] = a, y[threadIdx.x + 32] = b;
}

//: clean 1 32 h:128 z:64
extern "C" __global__ void matrix_loaded_in_time(const __half* x, unsigned* y) {
    __shared__ __align__(16) __half s[16][8];
    for (int i = threadIdx.x; i < 128; i += 32) s[i / 8][i % 8] = x[i];
    __syncwarp();
    unsigned a, b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(shared_place(s[threadIdx.x % 16])));
    y[threadIdx.x] = a, y[threadIdx.x + 32] = b;
}

//: clean 4 32 z:8
extern "C" __global__ void last_block_by_fence_in_ptx(int* y) {
    if (threadIdx.x == 0) {
        y[blockIdx.x] = blockIdx.x + 1;
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        int before;
        asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(&y[7]) : "memory");
        if (before == 3) y[6] = y[0] + y[1] + y[2] + y[3];
    }
}

//: clean 2 32 z:8
extern "C" __global__ void flag_by_release_and_acquire(int* y) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        y[0] = 42;
        asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(&y[4]), "r"(1) : "memory");
    } else {
        int seen;
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(&y[4]) : "memory");
        y[1] = seen ? y[0] : 42;
    }
}

//: warp_mask 1 48 h:256 z:64
extern "C" __global__ void matrix_for_half_a_warp(const __half* x, unsigned* y) {
    __shared__ __align__(16) __half s[8][8];
    if (threadIdx.x < 32) s[threadIdx.x / 4][threadIdx.x % 4 * 2] = s[threadIdx.x / 4][threadIdx.x % 4 * 2 + 1] = x[threadIdx.x];
    __syncthreads();
    unsigned a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(shared_place(s[threadIdx.x % 8])));  // BUG
    y[threadIdx.x] = a;
}
