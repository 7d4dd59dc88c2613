// Known algorithms as they are written when they are right.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

//: clean 1 64 f:128
extern "C" __global__ void bitonic_sort(float* x) {
    __shared__ float s[128];
    s[threadIdx.x] = x[threadIdx.x], s[threadIdx.x + 64] = x[threadIdx.x + 64];
    for (unsigned size = 2; size <= 128; size *= 2) {
        for (unsigned step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            const unsigned i = 2 * threadIdx.x - (threadIdx.x & (step - 1));
            const bool up = (i & size) == 0;
            const float a = s[i], b = s[i + step];
            if ((a > b) == up) s[i] = b, s[i + step] = a;
        }
    }
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x], x[threadIdx.x + 64] = s[threadIdx.x + 64];
}

//: clean 1 64 f:128 z:128
extern "C" __global__ void scan_up_and_down_the_tree(const float* x, float* y) {
    __shared__ float s[128];
    const int t = threadIdx.x;
    s[2 * t] = x[2 * t], s[2 * t + 1] = x[2 * t + 1];
    int offset = 1;
    for (int d = 64; d > 0; d /= 2, offset *= 2) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
    }
    if (t == 0) s[127] = 0.0f;
    for (int d = 1; d < 128; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            const int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            const float left = s[a];
            s[a] = s[b], s[b] += left;
        }
    }
    __syncthreads();
    y[2 * t] = s[2 * t], y[2 * t + 1] = s[2 * t + 1];
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void scan_between_two_buffers(const float* x, float* y) {
    __shared__ float s[2][64];
    int from = 0;
    s[0][threadIdx.x] = x[threadIdx.x];
    for (int step = 1; step < 64; step *= 2, from = 1 - from) {
        __syncthreads();
        s[1 - from][threadIdx.x] = s[from][threadIdx.x] + (threadIdx.x >= step ? s[from][threadIdx.x - step] : 0.0f);
    }
    y[threadIdx.x] = s[from][threadIdx.x];
}

//: clean 2x2 16x16 f:1024 z:1024 32
extern "C" __global__ void stencil_with_a_halo(const float* x, float* y, int n) {
    __shared__ float s[18][18];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    const auto at = [&](int r, int c) { return r < 0 || c < 0 || r >= n || c >= n ? 0.0f : x[r * n + c]; };
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
        s[i / 18][i % 18] = at(blockIdx.y * 16 + i / 18 - 1, blockIdx.x * 16 + i % 18 - 1);
    }
    __syncthreads();
    const int r = threadIdx.y + 1, c = threadIdx.x + 1;
    y[row * n + column] = s[r - 1][c] + s[r + 1][c] + s[r][c - 1] + s[r][c + 1] - 4.0f * s[r][c];
}

//: clean 4 64 i:256 z:16
extern "C" __global__ void histogram_of_each_block(const int* x, int* y) {
    __shared__ int bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[x[blockIdx.x * 64 + threadIdx.x] % 16], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&y[threadIdx.x], bins[threadIdx.x]);
}

//: clean 2 64 i:128 z:129
extern "C" __global__ void kept_ones_moved_together(const int* x, int* y) {
    const int i = blockIdx.x * 64 + threadIdx.x, lane = threadIdx.x % 32;
    const bool keep = x[i] % 3 == 0;
    const unsigned kept = __ballot_sync(0xffffffffu, keep);
    int first = 0;
    if (lane == 0) first = atomicAdd(&y[128], __popc(kept));
    first = __shfl_sync(0xffffffffu, first, 0);
    if (keep) y[first + __popc(kept & ((1u << lane) - 1))] = x[i];
}

//: clean 1 32 f:128 z:128
extern "C" __global__ void softmax_in_one_pass(const float* x, float* y) {
    float most = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < 128; i += 32) {
        const float before = most;
        most = fmaxf(most, x[i]);
        sum = sum * expf(before - most) + expf(x[i] - most);
    }
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, most, step), its = __shfl_xor_sync(0xffffffffu, sum, step);
        const float higher = fmaxf(most, other);
        sum = sum * expf(most - higher) + its * expf(other - higher);
        most = higher;
    }
    for (int i = threadIdx.x; i < 128; i += 32) y[i] = expf(x[i] - most) / sum;
}

//: clean 2 128 f:256 z:256
extern "C" __global__ void normalised_rows(const float* x, float* y) {
    __shared__ float partial[2][4];
    const float v = x[blockIdx.x * 128 + threadIdx.x];
    float sum = v, squares = v * v;
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, step);
        squares += __shfl_down_sync(0xffffffffu, squares, step);
    }
    if (threadIdx.x % 32 == 0) partial[0][threadIdx.x / 32] = sum, partial[1][threadIdx.x / 32] = squares;
    __syncthreads();
    sum = squares = 0.0f;
    for (int w = 0; w < 4; ++w) sum += partial[0][w], squares += partial[1][w];
    const float mean = sum / 128;
    y[blockIdx.x * 128 + threadIdx.x] = (v - mean) * rsqrtf(squares / 128 - mean * mean + 1e-5f);
}

//: clean 1 16x16 f:1024 f:1024 z:256 64
extern "C" __global__ void product_by_tiles(const float* a, const float* b, float* c, int k) {
    __shared__ float as[16][16], bs[16][16];
    float sum = 0.0f;
    for (int at = 0; at < k; at += 16) {
        as[threadIdx.y][threadIdx.x] = a[threadIdx.y * k + at + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * 16 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    c[threadIdx.y * 16 + threadIdx.x] = sum;
}

//: clean 1 32x8 f:1024 z:1024
extern "C" __global__ void turned_with_swizzled_columns(const float* x, float* y) {
    __shared__ float s[32][32];
    for (int r = threadIdx.y; r < 32; r += 8) s[r][threadIdx.x ^ r] = x[r * 32 + threadIdx.x];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) y[r * 32 + threadIdx.x] = s[threadIdx.x][r ^ threadIdx.x];
}

//: clean 2 32 i:64 z:2
extern "C" __global__ void place_of_the_largest(const int* x, unsigned* y) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    atomicMax(y, (unsigned)x[i] << 8 | (unsigned)i);
}

//: clean 1 64 z:64
extern "C" __global__ void joined_sets(int* parent) {
    parent[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int a = threadIdx.x, b = (threadIdx.x * 7) % 64;
    while (a != b) {
        if (a < b) { const int t = a; a = b, b = t; }
        const int seen = atomicCAS(&parent[a], a, b);
        if (seen == a) break;
        a = seen;
    }
}

//: clean 2x2x2 4x4x2 f:256 z:256
extern "C" __global__ void blocks_in_three_dimensions(const float* x, float* y) {
    const int block = blockIdx.x + 2 * (blockIdx.y + 2 * blockIdx.z);
    const int i = block * 32 + threadIdx.x + 4 * (threadIdx.y + 4 * threadIdx.z);
    y[i] = x[255 - i];
}

//: clean 1 64 f:64 z:16
extern "C" __global__ void groups_of_four(const float* x, float* y) {
    const auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    float sum = x[threadIdx.x];
    for (int step = 2; step > 0; step /= 2) sum += tile.shfl_down(sum, step);
    if (tile.thread_rank() == 0) y[tile.meta_group_rank()] = sum;
}

//: clean 3 64 f:512 z:512 512
extern "C" __global__ void strides_of_the_grid(const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i];
}

//: clean 1 128 f:128 z:1
extern "C" __global__ void barriers_then_one_warp(const float* x, float* y) {
    __shared__ float s[128];
    const int t = threadIdx.x;
    s[t] = x[t];
    for (int step = 64; step >= 32; step /= 2) {
        __syncthreads();
        if (t < step) s[t] += s[t + step];
    }
    if (t < 32) {
        float v = s[t];
        for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
        if (t == 0) *y = v;
    }
}

//: clean 1 64 b:64 z:2
extern "C" __global__ void bits_packed_by_votes(const unsigned char* x, unsigned* y) {
    const unsigned bits = __ballot_sync(0xffffffffu, x[threadIdx.x] & 1);
    if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = bits;
}

//: clean 2 64 f:130 f:3 z:128
extern "C" __global__ void convolved_with_a_halo(const float* x, const float* w, float* y) {
    __shared__ float s[66];
    const int first = blockIdx.x * 64;
    s[threadIdx.x] = x[first + threadIdx.x];
    if (threadIdx.x < 2) s[64 + threadIdx.x] = x[first + 64 + threadIdx.x];
    __syncthreads();
    y[first + threadIdx.x] = s[threadIdx.x] * w[0] + s[threadIdx.x + 1] * w[1] + s[threadIdx.x + 2] * w[2];
}

//: clean 1 64 i:64 z:64
extern "C" __global__ void sorted_by_one_bit(const int* x, int* y) {
    __shared__ int before[64];
    const int bit = x[threadIdx.x] & 1;
    before[threadIdx.x] = !bit;
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        const int add = threadIdx.x >= step ? before[threadIdx.x - step] : 0;
        __syncthreads();
        before[threadIdx.x] += add;
        __syncthreads();
    }
    const int zeros = before[63], mine = before[threadIdx.x] - !bit;
    y[bit ? zeros + (int)threadIdx.x - mine : mine] = x[threadIdx.x];
}

//: clean 1 32 f:32 z:32
extern "C" __global__ void passed_round_a_ring(const float* x, float* y) {
    float v = x[threadIdx.x], sum = 0.0f;
    for (int i = 0; i < 32; ++i) {
        sum += v;
        v = __shfl_sync(0xffffffffu, v, (threadIdx.x + 1) % 32);
    }
    y[threadIdx.x] = sum;
}

//: clean 3 64 f:192 z:1
extern "C" __global__ void summed_by_compare_and_swap(const float* x, float* y) {
    int* bits = (int*)y;
    int seen = *bits, tried;  // stale or not: a swap that fails shows the newest
    do {
        tried = seen;
        seen = atomicCAS(bits, tried, __float_as_int(__int_as_float(tried) + x[blockIdx.x * 64 + threadIdx.x]));
    } while (seen != tried);
}

//: clean 1 64 i:64 z:2
extern "C" __global__ void greatest_read_again_before_each_swap(const int* x, int* y) {
    __shared__ unsigned long long best;
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    const unsigned long long mine = (unsigned long long)x[threadIdx.x] << 32 | threadIdx.x;
    unsigned long long seen;
    do {
        seen = best;
        __syncwarp();  // every lane has read before the first swaps
    } while (__any_sync(0xffffffffu, atomicCAS(&best, seen, seen < mine ? mine : seen) != seen));
    __syncthreads();
    if (threadIdx.x < 2) y[threadIdx.x] = (int)(best >> 32 * threadIdx.x);
}
