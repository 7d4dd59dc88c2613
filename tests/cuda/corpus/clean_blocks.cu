// Correct kernels that look dangerous: nothing must be reported.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

//: clean 4 32 f:100 z:100 100
extern "C" __global__ void guarded_add(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1.0f;
}

//: clean 3 32 f:100 z:100 100
extern "C" __global__ void grid_stride(const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = 2.0f * x[i];
    }
}

//: clean 1 25 f:100 z:100
extern "C" __global__ void vectors_of_four(const float* x, float* y) {
    float4 v = ((const float4*)x)[threadIdx.x];
    v.x += 1.0f;
    ((float4*)y)[threadIdx.x] = v;
}

//: clean 2x2 32x32 f:4096 z:4096 64
extern "C" __global__ void tiled_transpose(const float* x, float* y, int n) {
    __shared__ float tile[32][33];
    tile[threadIdx.y][threadIdx.x] = x[(blockIdx.y * 32 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x];
    __syncthreads();
    y[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

//: clean 2 128 f:256 z:2
extern "C" __global__ void tree_reduction(const float* x, float* y) {
    __shared__ float s[128];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

//: clean 2 64 f:128 z:1
extern "C" __global__ void atomic_sum(const float* x, float* y) {
    atomicAdd(y, x[blockIdx.x * 64 + threadIdx.x]);
}

//: clean 2 64 i:128 z:8
extern "C" __global__ void shared_histogram(const int* x, int* y) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[x[blockIdx.x * 64 + threadIdx.x] % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&y[threadIdx.x], bins[threadIdx.x]);
}

//: clean 1 64 f:256 z:64 4
extern "C" __global__ void refill_with_two_barriers(const float* x, float* y, int rounds) {
    __shared__ float tile[64];
    float sum = 0.0f;
    for (int r = 0; r < rounds; ++r) {
        tile[threadIdx.x] = x[r * 64 + threadIdx.x];
        __syncthreads();
        sum += tile[(threadIdx.x + 33) % 64];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

//: clean 1 64 f:256 z:64 4
extern "C" __global__ void double_buffer(const float* x, float* y, int rounds) {
    __shared__ float tile[2][64];
    float sum = 0.0f;
    tile[0][threadIdx.x] = x[threadIdx.x];
    for (int r = 0; r < rounds; ++r) {
        __syncthreads();
        if (r + 1 < rounds) tile[(r + 1) % 2][threadIdx.x] = x[(r + 1) * 64 + threadIdx.x];
        sum += tile[r % 2][63 - threadIdx.x];
    }
    y[threadIdx.x] = sum;
}

//: clean 1 64 z:64
extern "C" __global__ void all_write_the_same(int* y) {
    if (threadIdx.x % 3 == 0) y[0] = 7;
}

//: clean 1 64 f:64 z:64 shared=256
extern "C" __global__ void dynamic_memory(const float* x, float* y) {
    extern __shared__ float scratch[];
    scratch[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = scratch[threadIdx.x ^ 32];
}

//: clean 1 64 f:64 z:64 shared=512
extern "C" __global__ void two_arrays_in_one(const float* x, float* y) {
    extern __shared__ float scratch[];
    float* first = scratch;
    int* second = (int*)(scratch + 64);
    first[threadIdx.x] = x[threadIdx.x];
    second[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = first[63 - threadIdx.x] + second[63 - threadIdx.x];
}

//: clean 4 32 f:128 z:8
extern "C" __global__ void last_block_adds_up(const float* x, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        y[blockIdx.x] = x[blockIdx.x * 32];
        __threadfence();
        last = atomicAdd((int*)&y[7], 1) == 3;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) y[6] = y[0] + y[1] + y[2] + y[3];
}

//: clean 4 32 z:8
extern "C" __global__ void last_block_reads_a_sum(int* y) {
    __shared__ bool last;
    atomicAdd(&y[0], (int)threadIdx.x);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&y[7], 1) == 3;
    __syncthreads();
    if (last && threadIdx.x == 0) y[6] = y[0] + y[7], y[7] = 0;
}

//: clean 2 64 z:4
extern "C" __global__ void lock_with_fences(int* y) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&y[0], 0, 1) != 0) { }
        __threadfence();
        y[1] += 1;
        __threadfence();
        atomicExch(&y[0], 0);
    }
}

//: clean 1 64 h:64 h:64
extern "C" __global__ void halves_side_by_side(const __half* x, __half* y) {
    __shared__ __half s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x] + x[threadIdx.x];
}

//: clean 1 64 b:64 b:64
extern "C" __global__ void bytes_side_by_side(const unsigned char* x, unsigned char* y) {
    __shared__ unsigned char s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void groups_barrier(const float* x, float* y) {
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    s[block.thread_rank()] = x[block.thread_rank()];
    block.sync();
    y[block.thread_rank()] = s[63 - block.thread_rank()];
}

//: clean 1 48 f:48 z:3
extern "C" __global__ void votes_over_the_block(const float* x, int* y) {
    const int all = __syncthreads_and(x[threadIdx.x] < 100.0f);
    const int any = __syncthreads_or(threadIdx.x == 40);
    const int count = __syncthreads_count(threadIdx.x < 30);
    if (threadIdx.x == 0) y[0] = all, y[1] = any, y[2] = count;
}

__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
//: clean 1 32 z:32
extern "C" __global__ void constant_table(float* y) {
    y[threadIdx.x] = table[threadIdx.x % 4];
}

__device__ int ticket;
//: clean 4 32 z:128
extern "C" __global__ void device_counter(int* y) {
    y[blockIdx.x * 32 + threadIdx.x] = atomicAdd(&ticket, 1) >= 0;
}

__device__ float local_sum(const float* x, int n) {
    float parts[8];
    for (int i = 0; i < 8; ++i) parts[i] = 0.0f;
    for (int i = 0; i < n; ++i) parts[i % 8] += x[i];
    float sum = 0.0f;
    for (int i = 0; i < 8; ++i) sum += parts[i];
    return sum;
}
//: clean 1 32 f:64 z:32
extern "C" __global__ void local_arrays(const float* x, float* y) {
    y[threadIdx.x] = local_sum(x + threadIdx.x, 32);
}

//: clean 2x2 16x16 f:1024 f:1024 z:1024 32
extern "C" __global__ void tiled_matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float sa[16][16], sb[16][16];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        sa[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        sb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

//: clean 1 32x4 f:130 z:128
extern "C" __global__ void halo_filled(const float* x, float* y) {
    __shared__ float s[130];
    const int t = threadIdx.y * 32 + threadIdx.x;
    s[t] = x[t];
    if (t < 2) s[128 + t] = x[128 + t];
    __syncthreads();
    y[t] = s[t] + s[t + 1] + s[t + 2];
}

//: clean 2 64 f:256 z:2
extern "C" __global__ void in_and_out_of_loops(const float* x, float* y) {
    __shared__ float s[64];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < 128; i += 64) {
        if (i % 5 == 0) continue;
        sum += x[blockIdx.x * 128 + i];
    }
    s[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 64; ++i) sum += s[i];
        y[blockIdx.x] = sum;
    }
}

//: clean 2 32x8 f:1000 z:40 40 20
extern "C" __global__ void one_condition_on_both_sides_of_a_barrier(const float* x, float* y,
                                                                    int cols, int rows) {
    __shared__ float part[8][32];
    const int c = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (c < cols) {
        for (int row = threadIdx.y; row < rows; row += 8) sum += x[row * cols + c];
    }
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < cols) {
        for (int i = 1; i < 8; ++i) sum += part[i][threadIdx.x];
        y[c] = sum;
    }
}
