// C = A B in half or bfloat16, rung 1 of 4: one warp per 16x16 tile of C, on tensor cores.
// A warp multiplies two 16x16 tiles as one operation, its lanes holding pieces of them that nobody
// numbers. Sums are float; C is rounded once. Tiles go through shared memory, where edges of any
// size are filled up with zeros. Each element of A and B that is read serves 16 outputs.
//
// A [M, K], B [K, N], C [M, N] f16, row-major. This kernel: f16. The other: bfloat16.
// launch: grid (ceil(N / 16), ceil(M / 16)), block (32)
// Counter: read global.a lanes/output/K = 0.0625
// Counter: read global.b lanes/output/K = 0.0625
// Counter: read shared.tile_a lanes/output/K = 0.0625
// Counter: read shared.tile_b lanes/output/K = 0.0625
#include "lab.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <class T>
__device__ __forceinline__ void multiply(const T* a, const T* b, T* c, int M, int N, int K) {
    __shared__ __align__(32) T tile_a[16][16], tile_b[16][16];
    __shared__ __align__(32) float tile_c[16][16];
    const int lane = threadIdx.x, first_row = blockIdx.y * 16, first_col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int first = 0; first < K; first += 16) {
        for (int i = lane; i < 256; i += 32) {
            const int row = i / 16, col = i % 16;
            const bool in_a = first_row + row < M && first + col < K;
            const bool in_b = first + row < K && first_col + col < N;
            tile_a[row][col] = in_a ? a[1LL * (first_row + row) * K + first + col] : T(0.0f);
            tile_b[row][col] = in_b ? b[1LL * (first + row) * N + first_col + col] : T(0.0f);
        }
        __syncwarp();
        wmma::load_matrix_sync(left, &tile_a[0][0], 16);
        wmma::load_matrix_sync(right, &tile_b[0][0], 16);
        wmma::mma_sync(sum, left, right, sum);
        __syncwarp();  // the next round overwrites what slower lanes still read
    }
    wmma::store_matrix_sync(&tile_c[0][0], sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
        const int row = first_row + i / 16, col = first_col + i % 16;
        if (row < M && col < N) c[1LL * row * N + col] = T(tile_c[i / 16][i % 16]);
    }
}

extern "C" __global__ void hgemm_1_wmma(const __half* __restrict__ a, const __half* __restrict__ b,
                                        __half* __restrict__ c, int M, int N, int K) {
    multiply(a, b, c, M, N, K);
}

extern "C" __global__ void hgemm_1_wmma_bfloat16(const __nv_bfloat16* __restrict__ a,
                                                 const __nv_bfloat16* __restrict__ b,
                                                 __nv_bfloat16* __restrict__ c, int M, int N,
                                                 int K) {
    multiply(a, b, c, M, N, K);
}
