// Structs and blocks of bytes, which a compiler moves in ways of its own.
#include <cstring>

struct Pair { float x, y; };
struct Five { int a, b, c, d, e; };

__device__ __attribute__((noinline)) Pair pair_of(int i) {
    Pair made;
    made.x = i, made.y = 2 * i;
    return made;
}

//: clean 1 64 z:64
extern "C" __global__ void returned_pairs_in_turn(int* y) {
    __shared__ Pair s[64];
    s[threadIdx.x] = pair_of(threadIdx.x);
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x].x;
}

//: race 1 64 z:64
extern "C" __global__ void returned_pairs_too_soon(int* y) {
    __shared__ Pair s[64];
    s[threadIdx.x] = pair_of(threadIdx.x);
    y[threadIdx.x] = threadIdx.x ? s[threadIdx.x - 1].x : 0;  // BUG
}

//: out_of_bounds 1 64 z:64
extern "C" __global__ void returned_pairs_past_the_end(Pair* y) {
    if (threadIdx.x > 15) y[threadIdx.x] = pair_of(threadIdx.x);  // BUG
}

//: race 1 64 z:2
extern "C" __global__ void returned_pairs_in_one_place(Pair* y) {
    *y = pair_of(threadIdx.x);  // BUG
}

//: clean 1 32 i:160 z:160
extern "C" __global__ void structs_of_twenty_bytes(const Five* x, Five* y) {
    __shared__ Five s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[31 - threadIdx.x];
}

//: out_of_bounds 1 32 i:155 z:160
extern "C" __global__ void one_struct_too_many(const Five* x, Five* y) {
    y[threadIdx.x] = x[threadIdx.x];  // BUG
}

//: clean 1 32 f:97 z:97
extern "C" __global__ void bytes_moved_by_threes(const float* x, float* y) {
    memcpy(y + 3 * threadIdx.x, x + 3 * threadIdx.x, 3 * sizeof(float));
}

//: out_of_bounds 1 32 f:96 z:94
extern "C" __global__ void bytes_moved_too_far(const float* x, float* y) {
    memcpy(y + 3 * threadIdx.x, x + 3 * threadIdx.x, 3 * sizeof(float));  // BUG
}

//: race 1 32 f:96 z:96
extern "C" __global__ void bytes_moved_over_each_other(const float* x, float* y) {
    std::memcpy(y + 2 * threadIdx.x, x + 3 * threadIdx.x, 3 * sizeof(float));  // BUG
}

//: out_of_bounds 1 32 z:256
extern "C" __global__ void zeroed_too_far(float* y) {
    memset(y + 8 * threadIdx.x + 8, 0, 32);  // BUG
}

//: clean 1 32 f:128 z:128
extern "C" __global__ void rows_of_a_tile_as_vectors(const float4* x, float4* y) {
    __shared__ char flag;
    __shared__ float tile[4][32];
    if (threadIdx.x == 0) flag = 1;
    reinterpret_cast<float4*>(tile)[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (flag) y[threadIdx.x] = reinterpret_cast<float4*>(tile)[31 - threadIdx.x];
}
