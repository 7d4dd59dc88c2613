// C = A B, rung 2 of 4: a 32x32 tile of A and of B in shared memory, used 32 times.
// Each element that comes from global memory serves 32 threads, so global reads fall to 1/32 of
// rung 1's. Now shared memory is the busy part: two reads per multiplication.
//
// A [M, K], B [K, N], C [M, N] f32, row-major
// launch: grid (ceil(N / 32), ceil(M / 32)), block (32, 32)
// Counter: read global.* lanes/output/K = 0.0625
// Counter: read shared.tile_a wavefronts/request = 1
// Counter: read shared.tile_b wavefronts/request = 1
// Counter: read shared.* lanes/output/K = 2
#include "lab.cuh"

extern "C" __global__ void sgemm_2_tiled(const float* __restrict__ a, const float* __restrict__ b,
                                         float* __restrict__ c, int M, int N, int K) {
    __shared__ float tile_a[32][32], tile_b[32][32];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int col = blockIdx.x * 32 + tx, row = blockIdx.y * 32 + ty;
    float sum = 0.0f;
    for (int first = 0; first < K; first += 32) {
        const bool in_a = row < M && first + tx < K, in_b = first + ty < K && col < N;
        tile_a[ty][tx] = in_a ? a[static_cast<long long>(row) * K + first + tx] : 0.0f;
        tile_b[ty][tx] = in_b ? b[static_cast<long long>(first + ty) * N + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; ++k) sum += tile_a[ty][k] * tile_b[k][tx];
        __syncthreads();  // the next round overwrites what slower threads still read
    }
    if (row < M && col < N) c[static_cast<long long>(row) * N + col] = sum;
}
