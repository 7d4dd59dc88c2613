// C = A B, rung 3 of 4: each thread computes 4x4 elements from 8 shared reads.
// A 64x64 tile of C per block and a 4x4 patch per thread: 8 floats from shared memory feed 16
// multiplications, half a read each where rung 2 needed two. Global reads halve again.
//
// A [M, K], B [K, N], C [M, N] f32, row-major
// launch: grid (ceil(N / 64), ceil(M / 64)), block (256)
// Counter: read global.* lanes/output/K = 0.03125
// Counter: read shared.* lanes/output/K = 0.5
#include "lab.cuh"

constexpr int kTile = 64, kSlab = 16, kPatch = 4;

extern "C" __global__ void sgemm_3_register_blocked(const float* __restrict__ a,
                                                    const float* __restrict__ b,
                                                    float* __restrict__ c, int M, int N, int K) {
    __shared__ float slab_a[kSlab][kTile + 1];  // turned, so a patch's rows lie side by side
    __shared__ float slab_b[kSlab][kTile];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    float sum[kPatch][kPatch] = {};
    for (int first = 0; first < K; first += kSlab) {
        for (int i = t; i < kTile * kSlab; i += 256) {
            const int row = i / kSlab, k = i % kSlab;
            const bool in = first_row + row < M && first + k < K;
            slab_a[k][row] = in ? a[static_cast<long long>(first_row + row) * K + first + k] : 0.0f;
        }
        for (int i = t; i < kTile * kSlab; i += 256) {
            const int k = i / kTile, col = i % kTile;
            const bool in = first + k < K && first_col + col < N;
            slab_b[k][col] = in ? b[static_cast<long long>(first + k) * N + first_col + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < kSlab; ++k) {
            float left[kPatch], right[kPatch];
#pragma unroll
            for (int i = 0; i < kPatch; ++i) left[i] = slab_a[k][ty + 16 * i];
#pragma unroll
            for (int j = 0; j < kPatch; ++j) right[j] = slab_b[k][tx + 16 * j];
#pragma unroll
            for (int i = 0; i < kPatch; ++i) {
#pragma unroll
                for (int j = 0; j < kPatch; ++j) sum[i][j] += left[i] * right[j];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
#pragma unroll
        for (int j = 0; j < kPatch; ++j) {
            const int row = first_row + ty + 16 * i, col = first_col + tx + 16 * j;
            if (row < M && col < N) c[static_cast<long long>(row) * N + col] = sum[i][j];
        }
    }
}
