// Two threads, one place, no order between them.
#include <cuda_fp16.h>

//: race 1 64 f:64 z:64
extern "C" __global__ void no_barrier_after_fill(const float* x, float* y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[63 - threadIdx.x];  // BUG
}

//: race 1 64 f:256 z:64 4
extern "C" __global__ void no_barrier_before_refill(const float* x, float* y, int rounds) {
    __shared__ float tile[64];
    float sum = 0.0f;
    for (int r = 0; r < rounds; ++r) {
        tile[threadIdx.x] = x[r * 64 + threadIdx.x];  // BUG
        __syncthreads();
        sum += tile[(threadIdx.x + 33) % 64];
    }
    y[threadIdx.x] = sum;
}

//: race 1 128 f:128 z:1
extern "C" __global__ void tree_without_barrier(const float* x, float* y) {
    __shared__ float s[128];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (t < step) s[t] += s[t + step];  // BUG
    }
    if (t == 0) y[0] = s[0];
}

//: race 1 64 f:64 z:1
extern "C" __global__ void warp_synchronous_tail(const float* x, float* y) {
    __shared__ volatile float s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        s[t] = s[t] + s[t + 32];
        if (t < 16) s[t] = s[t] + s[t + 16];  // BUG
    }
    if (t == 0) y[0] = s[0];
}

//: race 1 64 f:64 z:1
extern "C" __global__ void sum_without_atomic(const float* x, float* y) {
    y[0] += x[threadIdx.x];  // BUG
}

//: race 4 32 f:128 z:1
extern "C" __global__ void blocks_share_a_sum(const float* x, float* y) {
    if (threadIdx.x == 0) {
        y[0] += x[blockIdx.x];  // BUG
    }
}

//: race 1 64 i:64 z:64
extern "C" __global__ void histogram_without_atomic(const int* x, int* bins) {
    bins[x[threadIdx.x] / 8] += 1;  // BUG
}

//: race 2 64 f:128 z:128
extern "C" __global__ void neighbour_in_place(float* x, float* y) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    y[i] = x[i];
    if (i > 0) x[i - 1] = y[i] * 0.5f;  // BUG
}

//: race 2 64 f:129
extern "C" __global__ void shift_in_place(float* x) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    x[i] = x[i + 1];  // BUG
}

//: race 1 64 f:64 z:64
extern "C" __global__ void atomic_meets_plain(const float* x, float* y) {
    atomicAdd(&y[0], x[threadIdx.x]);
    if (threadIdx.x == 40) y[1] = y[0];  // BUG
}

//: race 1 32 f:32 z:32
extern "C" __global__ void missing_syncwarp(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[31 - threadIdx.x];  // BUG
}

//: race 1 32 f:32 z:32
extern "C" __global__ void shuffle_is_no_fence(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    const float first = __shfl_sync(0xffffffffu, x[threadIdx.x], 0);
    y[threadIdx.x] = first + s[31 - threadIdx.x];  // BUG
}

//: race 1 64 f:64 z:64
extern "C" __global__ void syncwarp_across_warps(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = s[63 - threadIdx.x];  // BUG
}

//: race 1 32 f:32 z:32
extern "C" __global__ void syncwarp_of_one_half(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 16) __syncwarp(0x0000ffffu);
    else __syncwarp(0xffff0000u);
    y[threadIdx.x] = s[31 - threadIdx.x];  // BUG
}

//: race 1 64 z:64
extern "C" __global__ void all_write_their_number(int* y) {
    y[0] = threadIdx.x;  // BUG
}

//: race 1 64 h:64 h:64
extern "C" __global__ void halves_overlap_a_word(const __half* x, __half* y) {
    __shared__ __half s[64];
    s[threadIdx.x] = x[threadIdx.x];
    unsigned pair = *(unsigned*)&s[threadIdx.x & ~1];  // BUG
    *(unsigned*)&y[threadIdx.x & ~1] = pair;
}

//: race 4 32 z:8
extern "C" __global__ void flag_without_fence(int* y) {
    if (threadIdx.x == 0) {
        y[blockIdx.x] = blockIdx.x + 1;
        if (atomicAdd(&y[7], 1) == 3) {
            y[6] = y[0] + y[1] + y[2] + y[3];  // BUG
        }
    }
}

//: race 4 32 z:8
extern "C" __global__ void sum_of_atomics_without_fence(int* y) {
    if (threadIdx.x == 0) {
        atomicAdd(&y[0], blockIdx.x + 1);
        if (atomicAdd(&y[7], 1) == 3) y[6] = y[0];  // BUG
    }
}

//: race 1 64 z:4
extern "C" __global__ void lock_without_fence(int* y) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&y[0], 0, 1) != 0) { }
        y[1] += 1;  // BUG
        atomicExch(&y[0], 0);
    }
}

//: race 1 64 f:64 z:64 shared=256
extern "C" __global__ void dynamic_without_barrier(const float* x, float* y) {
    extern __shared__ float scratch[];
    scratch[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = scratch[threadIdx.x ^ 32];  // BUG
}

//: race 1 32x8 f:256 z:256
extern "C" __global__ void transpose_without_barrier(const float* x, float* y) {
    __shared__ float tile[8][33];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
    const int t = threadIdx.y * 32 + threadIdx.x;
    y[t] = tile[t % 8][t / 8];  // BUG
}

//: race 1 64 f:64 z:64
extern "C" __global__ void double_buffer_one_barrier_short(const float* x, float* y) {
    __shared__ float s[2][64];
    const int t = threadIdx.x;
    s[0][t] = x[t];
    for (int r = 0; r < 3; ++r) {
        __syncthreads();
        s[(r + 1) % 2][t] = s[r % 2][(t + 32) % 64];
        if (r == 1) s[r % 2][t] = 0.0f;  // BUG
    }
    __syncthreads();
    y[t] = s[1][t];
}

//: race 1 64 z:1 z:64
extern "C" __global__ void kept_what_others_swap(int* y, int* order) {
    int seen = *y, tried;
    do {
        tried = seen;
        seen = atomicCAS(y, tried, tried + 1);
    } while (seen != tried);
    order[threadIdx.x] = *y;  // BUG
}

//: race 2 64 i:128 z:1
extern "C" __global__ void swapped_for_a_guess(const int* x, int* y) {
    const int seen = *y;  // BUG
    atomicCAS(y, 0, seen + x[blockIdx.x * 64 + threadIdx.x] + 1);
}

//: race 1 64 z:2
extern "C" __global__ void room_checked_before_it_is_taken(int* y) {
    if (y[0] < 40) atomicAdd(&y[0], 1);  // BUG
}
