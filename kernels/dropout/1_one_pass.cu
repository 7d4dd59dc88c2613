// Dropout, rung 1 of 1: the mask is drawn where it is used.
// Drawn by a kernel of its own, the mask would be written, read again and multiplied, and the
// product scaled in one more pass. Here a thread draws four numbers, reads its four elements of x,
// and writes both results: the mask is kept for the backward pass alone.
//
// x [n], y [n], mask [n] u8        launch: grid (anything), block (256)
// This kernel: f32. Others: double, half, bfloat16. An element stays with probability `kept`, times
// `scale`.
// Counter: read global.x sectors/request = 4
// Counter: write global.y sectors/request = 4
// Counter: write global.mask sectors/request = 1
// Counter: read global.* lanes/output = 1
#include "random.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class Compute, class T>
__device__ __forceinline__ void dropout(const T* x, T* y, unsigned char* mask, long long n,
                                        unsigned long long seed, unsigned long long offset,
                                        Compute kept, Compute scale) {
    for_each_drawn(n, seed, offset, UnitSingles(), [=](long long i, float drawn) {
        const bool stays = drawn < kept;
        mask[i] = stays;
        y[i] = static_cast<T>(static_cast<Compute>(x[i]) * static_cast<Compute>(stays) * scale);
    });
}

extern "C" __global__ void dropout_1_one_pass(const float* __restrict__ x, float* __restrict__ y,
                                              unsigned char* __restrict__ mask, long long n,
                                              unsigned long long seed, unsigned long long offset,
                                              float kept, float scale) {
    dropout(x, y, mask, n, seed, offset, kept, scale);
}

extern "C" __global__ void dropout_1_one_pass_double(const double* __restrict__ x,
                                                     double* __restrict__ y,
                                                     unsigned char* __restrict__ mask, long long n,
                                                     unsigned long long seed,
                                                     unsigned long long offset, double kept,
                                                     double scale) {
    dropout(x, y, mask, n, seed, offset, kept, scale);
}

extern "C" __global__ void dropout_1_one_pass_half(const __half* __restrict__ x,
                                                   __half* __restrict__ y,
                                                   unsigned char* __restrict__ mask, long long n,
                                                   unsigned long long seed,
                                                   unsigned long long offset, float kept,
                                                   float scale) {
    dropout(x, y, mask, n, seed, offset, kept, scale);
}

extern "C" __global__ void dropout_1_one_pass_bfloat16(const __nv_bfloat16* __restrict__ x,
                                                       __nv_bfloat16* __restrict__ y,
                                                       unsigned char* __restrict__ mask,
                                                       long long n, unsigned long long seed,
                                                       unsigned long long offset, float kept,
                                                       float scale) {
    dropout(x, y, mask, n, seed, offset, kept, scale);
}
