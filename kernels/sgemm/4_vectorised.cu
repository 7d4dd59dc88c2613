// C = A B, rung 4 of 4: float4 everywhere, and the next slab arrives while this one is used.
// A patch's four rows and four columns lie side by side, so two 16-byte shared reads feed 16
// multiplications: an eighth of a request each. Loads for the next slab are issued before the
// arithmetic and stored after it into the other half of shared memory: one barrier per slab.
//
// A [M, K], B [K, N], C [M, N] f32, row-major; edges and odd sizes are loaded one by one
// launch: grid (ceil(N / 64), ceil(M / 64)), block (256)
// Counter: read global.a bytes/lane = 16
// Counter: read global.b bytes/lane = 16
// Counter: read shared.* lanes/output/K = 0.125
#include "lab.cuh"

constexpr int kTile = 64, kSlab = 16;

// Four neighbours of one row; what lies outside is 0.
__device__ __forceinline__ float4 load_four(const float* matrix, int row, int col, int rows,
                                            int cols) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= rows || col >= cols) return v;
    const float* from = matrix + static_cast<long long>(row) * cols + col;
    if (col + 3 < cols && is_aligned_for_float4(from)) {
        return *reinterpret_cast<const float4*>(from);
    }
    v.x = from[0];
    if (col + 1 < cols) v.y = from[1];
    if (col + 2 < cols) v.z = from[2];
    if (col + 3 < cols) v.w = from[3];
    return v;
}

extern "C" __global__ void sgemm_4_vectorised(const float* __restrict__ a,
                                              const float* __restrict__ b, float* __restrict__ c,
                                              int M, int N, int K) {
    __shared__ float4 slab_a[2][kSlab][kTile / 4];  // turned: [k][row]
    __shared__ float4 slab_b[2][kSlab][kTile / 4];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    const int a_row = t / 4, a_k = t % 4 * 4;  // one float4 of A and one of B per thread and slab
    const int b_k = t / 16, b_col = t % 16 * 4;
    float4 next_a = load_four(a, first_row + a_row, a_k, M, K);
    float4 next_b = load_four(b, b_k, first_col + b_col, K, N);
    float sum[4][4] = {};
    const int slabs = (K + kSlab - 1) / kSlab;
    for (int s = 0; s < slabs; ++s) {
        const int half = s % 2;
        float* turned = reinterpret_cast<float*>(slab_a[half]);
        turned[(a_k + 0) * kTile + a_row] = next_a.x;
        turned[(a_k + 1) * kTile + a_row] = next_a.y;
        turned[(a_k + 2) * kTile + a_row] = next_a.z;
        turned[(a_k + 3) * kTile + a_row] = next_a.w;
        slab_b[half][b_k][b_col / 4] = next_b;
        __syncthreads();  // also keeps this half untouched until everyone is two slabs further
        if (s + 1 < slabs) {
            next_a = load_four(a, first_row + a_row, (s + 1) * kSlab + a_k, M, K);
            next_b = load_four(b, (s + 1) * kSlab + b_k, first_col + b_col, K, N);
        }
#pragma unroll
        for (int k = 0; k < kSlab; ++k) {
            const float4 left = slab_a[half][k][ty], right = slab_b[half][k][tx];
            const float rows[4] = {left.x, left.y, left.z, left.w};
            const float cols[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] += rows[i] * cols[j];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = first_row + ty * 4 + i, col = first_col + tx * 4;
        if (row >= M || col >= N) continue;
        float* to = c + static_cast<long long>(row) * N + col;
        if (col + 3 < N && is_aligned_for_float4(to)) {
            *reinterpret_cast<float4*>(to) =
                make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        } else {
            for (int j = 0; j < 4 && col + j < N; ++j) to[j] = sum[i][j];
        }
    }
}
