// Two-byte floats, tiles and tensor-core fragments, as the tests next door use them.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
namespace cg = cooperative_groups;
using namespace nvcuda;

template <class T> __global__ void arithmetic(const T* a, const T* b, const T* c, T* out, int n) {
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    out[i * 5] = a[i] + b[i];
    out[i * 5 + 1] = a[i] - b[i];
    out[i * 5 + 2] = a[i] * b[i];
    out[i * 5 + 3] = a[i] / b[i];
    out[i * 5 + 4] = __hfma(a[i], b[i], c[i]);
}

extern "C" __global__ void convert(const float* x, __half* h, __nv_bfloat16* b, int n) {
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    h[i] = __float2half(x[i]);
    b[i] = __float2bfloat16(x[i]);
}

extern "C" __global__ void pairs(const __half2* a, const __half2* b, __half2* out) {
    out[threadIdx.x] = __hfma2(a[threadIdx.x], b[threadIdx.x], __float2half2_rn(1.0f));
}

extern "C" __global__ void tiles(float* out) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    const float sum = cg::reduce(tile, (float)block.thread_rank(), cg::plus<float>());
    block.sync();
    out[block.thread_rank()] = sum + 1000.0f * tile.meta_group_rank();
}

template <class T> __global__ void fragments(const T* a, const T* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < 32; k += 16) {
        wmma::load_matrix_sync(fa, a + k, 32);
        wmma::load_matrix_sync(fb, b + k, 32);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
