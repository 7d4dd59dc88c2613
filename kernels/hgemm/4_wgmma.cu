// C = A B in half or bfloat16, rung 4 of 4: four warps multiply as one from shared memory.
// On Hopper the tensor cores read both sides of a 64x64x16 product from shared memory themselves:
// no ldmatrix, no register holds a piece of A or B, and the warps only wait. What is left to do is
// to have the slabs there in time, in the one layout the hardware reads without conflicts: rows of
// 128 bytes whose pieces are exchanged by the row. Two warpgroups share a 128x128 tile of C.
//
// A [M, K], B [K, N], C [M, N] f16, row-major; rows that do not start at 16 bytes go one by one
// launch: grid (ceil(N / 128), ceil(M / 128)), block (256), shared memory (99328) bytes
// This kernel: f16. The other: bfloat16.
// GPU only: sm_90a; wgmma and cp.async are inline PTX
// Counter: read global.a bytes/lane = 16
// Counter: read global.b bytes/lane = 16
#include "ptx.cuh"

constexpr int kTile = 128, kSlab = 64, kStages = 3;
constexpr int kRowBytes = 128;                 // of a row of 64 elements
constexpr int kSideBytes = kTile * kSlab * 2;  // of one side's slab
constexpr int kStageBytes = 2 * kSideBytes;

// Eight neighbours of a row, from col on, on their way to shared memory; what lies outside is 0.
template <class T>
__device__ __forceinline__ void send_eight(char* shared, const T* matrix, int row, int col,
                                           int rows, int cols, bool aligned) {
    const int count = row < rows ? max(0, min(8, cols - col)) : 0;
    const T* from = count ? matrix + 1LL * row * cols + col : matrix;
    if (aligned) {
        copy_async(shared, from, count * sizeof(T));
        return;
    }
    T* to = reinterpret_cast<T*>(shared);
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = i < count ? from[i] : T(0.0f);
}

template <class T>
__device__ __forceinline__ void multiply(const T* a, const T* b, T* c, int M, int N, int K) {
    extern __shared__ char unaligned[];  // the layout repeats every 1024 bytes, so it starts at one
    const unsigned long long start = reinterpret_cast<unsigned long long>(unaligned);
    char* slabs_of_both = unaligned + (1024 - start % 1024) % 1024;
    const int t = threadIdx.x, group = t / 128;
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    const bool a_aligned = is_aligned_for_float4(a) && K % 8 == 0;  // uniform in the grid
    const bool b_aligned = is_aligned_for_float4(b) && N % 8 == 0;
    const int slabs = (K + kSlab - 1) / kSlab;
    auto fetch = [&](int slab) {
        char* side_a = slabs_of_both + slab % kStages * kStageBytes;
        char* side_b = side_a + kSideBytes;  // two panels of 64 columns, a row for each of 64 k
        const int first = slab * kSlab;
        for (int i = t; i < kTile * kSlab / 8; i += 256) {
            const int row = i / 8, piece = i % 8, k = row % kSlab, panel = row / kSlab;
            char* at = side_a + row * kRowBytes + (piece ^ row % 8) * 16;
            send_eight(at, a, first_row + row, first + piece * 8, M, K, a_aligned);
            at = side_b + row * kRowBytes + (piece ^ row % 8) * 16;
            send_eight(at, b, first + k, first_col + panel * 64 + piece * 8, K, N, b_aligned);
        }
    };

    float sum[2][32] = {};  // [64 columns][of a thread]
    for (int s = 0; s < kStages - 1; ++s) {
        if (s < slabs) fetch(s);
        close_copy_group();
    }
    for (int s = 0; s < slabs; ++s) {
        wait_for_copies<kStages - 2>();
        show_to_tensor_cores();
        __syncthreads();  // the slab is there for all, and all are done with the one before
        if (s + kStages - 1 < slabs) fetch(s + kStages - 1);
        close_copy_group();  // a group a round, an empty one too, so that the count above holds
        const char* side_a = slabs_of_both + s % kStages * kStageBytes;
        const MatrixView left = view_of(side_a + group * 64 * kRowBytes);
        const MatrixView right = view_of(side_a + kSideBytes);
        begin_products();
#pragma unroll
        for (int k = 0; k < kSlab; k += 16) {
#pragma unroll
            for (int panel = 0; panel < 2; ++panel) {
                multiply_64x64x16(sum[panel], advanced(left, k * 2),
                                  advanced(right, (panel * kSlab + k) * kRowBytes), T());
            }
        }
        close_product_group();
        wait_for_products();
    }
    const int lane = t % 32, warp = t / 32;  // the warps' rows follow one another, 16 each
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const int panel = i / 32, e = i % 4, column = i % 32 / 4 * 8;
        const int row = first_row + warp * 16 + lane / 4 + e / 2 * 8;
        const int col = first_col + panel * 64 + column + lane % 4 * 2 + e % 2;
        if (row < M && col < N) c[1LL * row * N + col] = T(sum[panel][i % 32]);
    }
}

extern "C" __global__ void hgemm_4_wgmma(const __half* __restrict__ a, const __half* __restrict__ b,
                                         __half* __restrict__ c, int M, int N, int K) {
    multiply(a, b, c, M, N, K);
}

extern "C" __global__ void hgemm_4_wgmma_bfloat16(const __nv_bfloat16* __restrict__ a,
                                                  const __nv_bfloat16* __restrict__ b,
                                                  __nv_bfloat16* __restrict__ c, int M, int N,
                                                  int K) {
    multiply(a, b, c, M, N, K);
}
