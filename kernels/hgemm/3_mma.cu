// C = A B in half or bfloat16, rung 3 of 4: the tensor core's own instruction, fed by ldmatrix.
// mma.sync says which lane holds what, so pieces go from shared memory to registers by ldmatrix,
// four 8x8 matrices at a time, and sums go from registers to C with nothing in between. Slabs are
// copied two rounds ahead by cp.async, past the registers. A row's pieces of 16 bytes are exchanged
// by an exclusive or with the row, so that the eight rows of a matrix lie in different banks
// without padding. A warp's 64x32 tile takes 6 pieces for 8 products, where rung 2's 32x32 took 4
// for 4.
//
// A [M, K], B [K, N], C [M, N] f16, row-major; rows that do not start at 16 bytes go one by one
// launch: grid (ceil(N / 128), ceil(M / 128)), block (256). This kernel: f16. The other: bfloat16.
// GPU only: sm_80, sm_90, sm_100; cp.async, ldmatrix and mma.sync are inline PTX
// Counter: read global.a bytes/lane = 16
// Counter: read shared.slab_a wavefronts/request = 1
// Counter: read shared.slab_b wavefronts/request = 1
#include "ptx.cuh"

constexpr int kTile = 128, kSlab = 32, kStages = 3;

// Where piece `piece` of eight elements lies in its row: neighbouring rows differ.
__device__ __forceinline__ int piece_of_a(int row, int piece) { return (piece ^ row / 2 % 4) * 8; }
__device__ __forceinline__ int piece_of_b(int row, int piece) { return (piece ^ row % 8) * 8; }

// Eight neighbours of a row, from col on, on their way to shared memory; what lies outside is 0.
template <class T>
__device__ __forceinline__ void send_eight(T* shared, const T* matrix, int row, int col, int rows,
                                           int cols, bool aligned) {
    const int count = row < rows ? max(0, min(8, cols - col)) : 0;
    const T* from = count ? matrix + 1LL * row * cols + col : matrix;
    if (aligned) {
        copy_async(shared, from, count * sizeof(T));
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) shared[i] = i < count ? from[i] : T(0.0f);
}

template <class T>
__device__ __forceinline__ void multiply(const T* a, const T* b, T* c, int M, int N, int K) {
    __shared__ __align__(128) T slab_a[kStages][kTile][kSlab], slab_b[kStages][kSlab][kTile];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    const int warp_row = warp / 4 * 64, warp_col = warp % 4 * 32;
    const bool a_aligned = is_aligned_for_float4(a) && K % 8 == 0;  // uniform in the grid
    const bool b_aligned = is_aligned_for_float4(b) && N % 8 == 0;
    const int slabs = (K + kSlab - 1) / kSlab;
    auto fetch = [&](int slab) {
        const int stage = slab % kStages, first = slab * kSlab;
#pragma unroll
        for (int i = t; i < kTile * kSlab / 8; i += 256) {
            const int a_row = i / 4, b_row = i / 16;
            send_eight(&slab_a[stage][a_row][piece_of_a(a_row, i % 4)], a, first_row + a_row,
                       first + i % 4 * 8, M, K, a_aligned);
            send_eight(&slab_b[stage][b_row][piece_of_b(b_row, i % 16)], b, first + b_row,
                       first_col + i % 16 * 8, K, N, b_aligned);
        }
    };

    float sum[4][4][4] = {};  // [16 rows][8 columns][of a lane]
    for (int s = 0; s < kStages - 1; ++s) {
        if (s < slabs) fetch(s);
        close_copy_group();
    }
    for (int s = 0; s < slabs; ++s) {
        wait_for_copies<kStages - 2>();
        __syncthreads();  // the slab is there for all, and all are done with the one before
        if (s + kStages - 1 < slabs) fetch(s + kStages - 1);
        close_copy_group();  // a group a round, an empty one too, so that the count above holds
        const int stage = s % kStages;
#pragma unroll
        for (int k = 0; k < kSlab; k += 16) {
            unsigned left[4][4], right[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = warp_row + 16 * i + lane % 16;
                load_matrices(left[i], &slab_a[stage][row][piece_of_a(row, k / 8 + lane / 16)]);
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int row = k + lane % 16, piece = warp_col / 8 + 2 * j + lane / 16;
                load_matrices_turned(right[j], &slab_b[stage][row][piece_of_b(row, piece)]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    multiply_16x8x16(sum[i][j], left[i], right[j / 2][j % 2 * 2],
                                     right[j / 2][j % 2 * 2 + 1], T());
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = first_row + warp_row + 16 * i + lane / 4 + e / 2 * 8;
                const int col = first_col + warp_col + 8 * j + lane % 4 * 2 + e % 2;
                if (row < M && col < N) c[1LL * row * N + col] = T(sum[i][j][e]);
            }
        }
    }
}

extern "C" __global__ void hgemm_3_mma(const __half* __restrict__ a, const __half* __restrict__ b,
                                       __half* __restrict__ c, int M, int N, int K) {
    multiply(a, b, c, M, N, K);
}

extern "C" __global__ void hgemm_3_mma_bfloat16(const __nv_bfloat16* __restrict__ a,
                                                const __nv_bfloat16* __restrict__ b,
                                                __nv_bfloat16* __restrict__ c, int M, int N,
                                                int K) {
    multiply(a, b, c, M, N, K);
}
