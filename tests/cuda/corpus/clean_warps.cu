// Correct kernels around warps: masks, shuffles, divergence, fragments.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <mma.h>
namespace cg = cooperative_groups;
using namespace nvcuda;

//: clean 1 64 f:64 z:2
extern "C" __global__ void warp_reduction(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
    if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = v;
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void butterfly(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int step = 1; step < 32; step *= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    y[threadIdx.x] = v;
}

//: clean 1 128 f:128 z:1
extern "C" __global__ void two_stage_reduction(const float* x, float* y) {
    __shared__ float partial[4];
    float v = x[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < 4 ? partial[threadIdx.x] : 0.0f;
        for (int step = 2; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
        if (threadIdx.x == 0) y[0] = v;
    }
}

//: clean 1 32 f:32 z:32
extern "C" __global__ void warp_exchange(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = s[31 - threadIdx.x];
}

//: clean 1 32 f:32 z:32
extern "C" __global__ void halves_of_a_warp(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    const int base = threadIdx.x & 16;
    if (threadIdx.x < 16) __syncwarp(0x0000ffffu);
    else __syncwarp(0xffff0000u);
    y[threadIdx.x] = s[base + 15 - (threadIdx.x & 15)];
}

//: clean 1 32 f:32 z:32
extern "C" __global__ void shuffles_in_both_branches(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x < 16) v += __shfl_xor_sync(0x0000ffffu, v, 1);
    else v -= __shfl_xor_sync(0xffff0000u, v, 1);
    y[threadIdx.x] = v;
}

//: clean 1 32 f:32 z:32
extern "C" __global__ void segments_of_eight(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int step = 4; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step, 8);
    y[threadIdx.x] = __shfl_sync(0xffffffffu, v, 0, 8);
}

//: clean 1 32 f:32 z:32
extern "C" __global__ void warp_scan(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int step = 1; step < 32; step *= 2) {
        const float left = __shfl_up_sync(0xffffffffu, v, step);
        if (threadIdx.x >= step) v += left;
    }
    y[threadIdx.x] = v;
}

//: clean 1 48 i:48 z:48
extern "C" __global__ void votes(const int* x, unsigned* y) {
    const unsigned mask = threadIdx.x < 32 ? 0xffffffffu : 0x0000ffffu;
    const unsigned odd = __ballot_sync(mask, x[threadIdx.x] & 1);
    const int any = __any_sync(mask, x[threadIdx.x] == 5), all = __all_sync(mask, x[threadIdx.x] < 48);
    y[threadIdx.x] = __popc(odd) + any + all;
}

//: clean 1 32 i:32 z:32
extern "C" __global__ void matching(const int* x, unsigned* y) {
    const unsigned same = __match_any_sync(0xffffffffu, x[threadIdx.x] / 4);
    int all;
    __match_all_sync(same, x[threadIdx.x] / 4, &all);
    y[threadIdx.x] = same + all;
}

//: clean 1 32 i:32 z:32
extern "C" __global__ void aggregated_atomics(const int* x, int* y) {
    const unsigned wanting = __ballot_sync(0xffffffffu, x[threadIdx.x] % 3 == 0);
    if (x[threadIdx.x] % 3 == 0) {
        const int leader = __ffs(wanting) - 1;
        int base = 0;
        if (threadIdx.x == leader) base = atomicAdd(&y[0], __popc(wanting));
        base = __shfl_sync(wanting, base, leader);
        y[1 + base + __popc(wanting & ((1u << threadIdx.x) - 1))] = x[threadIdx.x];
    }
}

//: clean 1 32 i:32 z:4
extern "C" __global__ void reduce_instructions(const int* x, int* y) {
    const int sum = __reduce_add_sync(0xffffffffu, x[threadIdx.x]);
    const int most = __reduce_max_sync(0xffffffffu, x[threadIdx.x]);
    const unsigned ors = __reduce_or_sync(0xffffffffu, (unsigned)x[threadIdx.x]);
    if (threadIdx.x == 0) y[0] = sum, y[1] = most, y[2] = ors;
}

//: clean 1 64 f:64 z:64 40
extern "C" __global__ void whole_warps_leave(const float* x, float* y, int n) {
    if (threadIdx.x >= 32) return;
    float v = x[threadIdx.x];
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    y[threadIdx.x] = v;
}

//: clean 1 32 f:32 z:32 20
extern "C" __global__ void mask_of_those_who_stay(const float* x, float* y, int n) {
    const unsigned mask = __ballot_sync(0xffffffffu, threadIdx.x < n);
    if (threadIdx.x >= n) return;
    float v = x[threadIdx.x];
    const float next = __shfl_sync(mask, v, min((int)threadIdx.x + 1, n - 1));
    y[threadIdx.x] = v + next;
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void tiles_of_eight(const float* x, float* y) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    tile.sync();
    y[threadIdx.x] = s[threadIdx.x / 8 * 8 + 7 - tile.thread_rank()] + cg::reduce(tile, x[threadIdx.x], cg::plus<float>());
}

//: clean 1 32 f:128 z:32
extern "C" __global__ void unequal_loops(const float* x, float* y) {
    float sum = 0.0f;
    for (int i = 0; i < threadIdx.x % 4; ++i) sum += x[i * 32 + threadIdx.x];
    y[threadIdx.x] = sum;
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void divergent_then_together(const float* x, float* y) {
    __shared__ float s[64];
    float v = x[threadIdx.x];
    if (threadIdx.x % 3 == 0) v = expf(v);
    else if (threadIdx.x % 3 == 1) v = sqrtf(fabsf(v));
    s[threadIdx.x] = v;
    __syncthreads();
    y[threadIdx.x] = s[(threadIdx.x + 1) % 64];
}

//: clean 1 32 h:256 h:256 z:256
extern "C" __global__ void fragments(const __half* a, const __half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
