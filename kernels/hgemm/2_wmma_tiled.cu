// C = A B in half or bfloat16, rung 2 of 4: four warps share a 64x64 tile of C.
// Slabs of A and B come in eight elements a load, 16 bytes, and serve 64 outputs each. A warp holds
// 2x2 tiles, so a piece it loads is multiplied twice: half of rung 1's shared reads. Rows are eight
// elements longer than needed, which moves the rows of a tile to different banks.
//
// A [M, K], B [K, N], C [M, N] f16, row-major; rows that do not start at 16 bytes go one by one
// launch: grid (ceil(N / 64), ceil(M / 64)), block (128). This kernel: f16. The other: bfloat16.
// Counter: read global.a bytes/lane = 16
// Counter: read global.b bytes/lane = 16
// Counter: read global.* lanes/output/K = 0.00390625
// Counter: read shared.slab_a lanes/output/K = 0.03125
// Counter: read shared.slab_b lanes/output/K = 0.03125
#include "lab.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int kTile = 64, kSlab = 32, kPad = 8;

// Eight neighbours of a row, from col on; what lies outside is 0.
template <class T>
__device__ __forceinline__ uint4 load_eight(const T* matrix, int row, int col, int rows, int cols) {
    __align__(16) T eight[8];
    const T* from = matrix + 1LL * row * cols + col;
    if (row < rows && col + 7 < cols && is_aligned_for_float4(from)) {
        return *reinterpret_cast<const uint4*>(from);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) eight[i] = row < rows && col + i < cols ? from[i] : T(0.0f);
    return *reinterpret_cast<const uint4*>(eight);
}

template <class T>
__device__ __forceinline__ void multiply(const T* a, const T* b, T* c, int M, int N, int K) {
    __shared__ __align__(32) T slab_a[kTile][kSlab + kPad], slab_b[kSlab][kTile + kPad];
    __shared__ __align__(32) float tile_c[kTile][kTile + kPad];
    const int t = threadIdx.x, warp = t / 32;
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    const int warp_row = warp / 2 * 32, warp_col = warp % 2 * 32;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> left[2];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> right[2];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(sum[i / 2][i % 2], 0.0f);

    uint4 next_a[2], next_b[2];  // of the next slab: two of 256 pieces of eight, each
    auto fetch = [&](int first) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int piece = t + 128 * i;
            next_a[i] = load_eight(a, first_row + piece / 4, first + piece % 4 * 8, M, K);
            next_b[i] = load_eight(b, first + piece / 8, first_col + piece % 8 * 8, K, N);
        }
    };
    fetch(0);
    for (int first = 0; first < K; first += kSlab) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int piece = t + 128 * i;
            *reinterpret_cast<uint4*>(&slab_a[piece / 4][piece % 4 * 8]) = next_a[i];
            *reinterpret_cast<uint4*>(&slab_b[piece / 8][piece % 8 * 8]) = next_b[i];
        }
        __syncthreads();
        if (first + kSlab < K) fetch(first + kSlab);
#pragma unroll
        for (int k = 0; k < kSlab; k += 16) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(left[i], &slab_a[warp_row + 16 * i][k], kSlab + kPad);
                wmma::load_matrix_sync(right[i], &slab_b[k][warp_col + 16 * i], kTile + kPad);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                wmma::mma_sync(sum[i / 2][i % 2], left[i / 2], right[i % 2], sum[i / 2][i % 2]);
            }
        }
        __syncthreads();  // the next round overwrites what slower warps still read
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float* to = &tile_c[warp_row + i / 2 * 16][warp_col + i % 2 * 16];
        wmma::store_matrix_sync(to, sum[i / 2][i % 2], kTile + kPad, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = t; i < kTile * kTile; i += 128) {
        const int row = first_row + i / kTile, col = first_col + i % kTile;
        if (row < M && col < N) c[1LL * row * N + col] = T(tile_c[i / kTile][i % kTile]);
    }
}

extern "C" __global__ void hgemm_2_wmma_tiled(const __half* __restrict__ a,
                                              const __half* __restrict__ b, __half* __restrict__ c,
                                              int M, int N, int K) {
    multiply(a, b, c, M, N, K);
}

extern "C" __global__ void hgemm_2_wmma_tiled_bfloat16(const __nv_bfloat16* __restrict__ a,
                                                       const __nv_bfloat16* __restrict__ b,
                                                       __nv_bfloat16* __restrict__ c, int M, int N,
                                                       int K) {
    multiply(a, b, c, M, N, K);
}
