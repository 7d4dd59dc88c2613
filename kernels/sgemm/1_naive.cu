// C = A B, rung 1 of 4: one thread per element of C.
// Lanes share a row of A, so its load is one sector broadcast to all, and read neighbours of B: 4
// sectors. The traffic is what hurts: 2 K floats are read per element of C.
//
// A [M, K], B [K, N], C [M, N] f32, row-major
// launch: grid (ceil(N / 32), ceil(M / 8)), block (32, 8)
// Counter: read global.a sectors/request = 1
// Counter: read global.b sectors/request = 4
// Counter: read global.* lanes/output/K = 2
#include "lab.cuh"

extern "C" __global__ void sgemm_1_naive(const float* __restrict__ a, const float* __restrict__ b,
                                         float* __restrict__ c, int M, int N, int K) {
    const int col = blockIdx.x * 32 + threadIdx.x;
    const int row = blockIdx.y * 8 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum += a[static_cast<long long>(row) * K + k] * b[static_cast<long long>(k) * N + col];
    }
    c[static_cast<long long>(row) * N + col] = sum;
}
