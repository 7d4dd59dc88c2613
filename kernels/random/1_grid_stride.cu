// Random numbers, rung 1 of 1: every thread encrypts a counter of its own.
// A generator with a state would have to be read and written by all threads in turn. Philox needs
// none: thread, seed and offset are the counter, so any thread makes its numbers at once, and all
// memory traffic is the result. Which thread fills which element depends on the grid, and so do the
// numbers; PyTorch takes blocks of 256 threads and no more of them than the GPU holds at a time.
//
// out [n]             launch: grid (anything), block (256)
// This kernel: f32, uniform in [low, high). uniform_double, _half, _bfloat16: other types.
// normal, _double, _half, _bfloat16: normal numbers. bernoulli, _double: a byte, 1 with probability
// p; float32 numbers are compared with it, or float64 ones. whole, whole_wide: i64,
// low + word % span, words of 32 or of 64 bits; span 0 is all of 64 bits.
// Counter: write global.out sectors/request = 4
// Counter: write global.out lanes/output = 1
// Counter of bernoulli: write global.out sectors/request = 1
#include "random.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The drawn numbers end at 1 and begin after 0: what became `high` is made `low`.
template <class Make, class Compute, class T>
__device__ __forceinline__ void uniform(T* out, long long n, unsigned long long seed,
                                        unsigned long long offset, Compute low, Compute high) {
    const T first = static_cast<T>(low), end = static_cast<T>(high);
    const Compute start = static_cast<Compute>(first);
    const Compute range =
        static_cast<Compute>(static_cast<T>(static_cast<Compute>(end) - start));
    for_each_drawn(n, seed, offset, Make(), [=](long long i, Compute drawn) {
        const T value = static_cast<T>(drawn * range + start);
        out[i] = static_cast<Compute>(value) == static_cast<Compute>(end) ? first : value;
    });
}

template <class Make, class Compute, class T>
__device__ __forceinline__ void normal(T* out, long long n, unsigned long long seed,
                                       unsigned long long offset, Compute mean, Compute std) {
    for_each_drawn(n, seed, offset, Make(), [=](long long i, Compute drawn) {
        out[i] = static_cast<T>(drawn * std + mean);
    });
}

template <class Make, class Compute>
__device__ __forceinline__ void bernoulli(unsigned char* out, long long n, unsigned long long seed,
                                          unsigned long long offset, Compute p) {
    for_each_drawn(n, seed, offset, Make(),
                   [=](long long i, Compute drawn) { out[i] = drawn < p; });
}

template <class Make>
__device__ __forceinline__ void whole(long long* out, long long n, unsigned long long seed,
                                      unsigned long long offset, long long low,
                                      unsigned long long span) {
    for_each_drawn(n, seed, offset, Make(), [=](long long i, unsigned long long drawn) {
        out[i] = static_cast<long long>((span ? drawn % span : drawn) +
                                        static_cast<unsigned long long>(low));
    });
}

extern "C" __global__ void random_1_grid_stride(float* __restrict__ out, long long n,
                                                unsigned long long seed, unsigned long long offset,
                                                float low, float high) {
    uniform<UnitSingles>(out, n, seed, offset, low, high);
}

extern "C" __global__ void random_1_grid_stride_uniform_double(double* __restrict__ out,
                                                               long long n, unsigned long long seed,
                                                               unsigned long long offset,
                                                               double low, double high) {
    uniform<UnitDoubles>(out, n, seed, offset, low, high);
}

extern "C" __global__ void random_1_grid_stride_uniform_half(__half* __restrict__ out, long long n,
                                                             unsigned long long seed,
                                                             unsigned long long offset, float low,
                                                             float high) {
    uniform<UnitSingles>(out, n, seed, offset, low, high);
}

extern "C" __global__ void random_1_grid_stride_uniform_bfloat16(__nv_bfloat16* __restrict__ out,
                                                                 long long n,
                                                                 unsigned long long seed,
                                                                 unsigned long long offset,
                                                                 float low, float high) {
    uniform<UnitSingles>(out, n, seed, offset, low, high);
}

extern "C" __global__ void random_1_grid_stride_normal(float* __restrict__ out, long long n,
                                                       unsigned long long seed,
                                                       unsigned long long offset, float mean,
                                                       float std) {
    normal<NormalSingles>(out, n, seed, offset, mean, std);
}

extern "C" __global__ void random_1_grid_stride_normal_double(double* __restrict__ out, long long n,
                                                              unsigned long long seed,
                                                              unsigned long long offset,
                                                              double mean, double std) {
    normal<NormalDoubles>(out, n, seed, offset, mean, std);
}

extern "C" __global__ void random_1_grid_stride_normal_half(__half* __restrict__ out, long long n,
                                                            unsigned long long seed,
                                                            unsigned long long offset, float mean,
                                                            float std) {
    normal<NormalSingles>(out, n, seed, offset, mean, std);
}

extern "C" __global__ void random_1_grid_stride_normal_bfloat16(__nv_bfloat16* __restrict__ out,
                                                                long long n,
                                                                unsigned long long seed,
                                                                unsigned long long offset,
                                                                float mean, float std) {
    normal<NormalSingles>(out, n, seed, offset, mean, std);
}

extern "C" __global__ void random_1_grid_stride_bernoulli(unsigned char* __restrict__ out,
                                                          long long n, unsigned long long seed,
                                                          unsigned long long offset, float p) {
    bernoulli<UnitSingles>(out, n, seed, offset, p);
}

extern "C" __global__ void random_1_grid_stride_bernoulli_double(unsigned char* __restrict__ out,
                                                                 long long n,
                                                                 unsigned long long seed,
                                                                 unsigned long long offset,
                                                                 double p) {
    bernoulli<UnitDoubles>(out, n, seed, offset, p);
}

extern "C" __global__ void random_1_grid_stride_whole(long long* __restrict__ out, long long n,
                                                      unsigned long long seed,
                                                      unsigned long long offset, long long low,
                                                      unsigned long long span) {
    whole<Words>(out, n, seed, offset, low, span);
}

extern "C" __global__ void random_1_grid_stride_whole_wide(long long* __restrict__ out, long long n,
                                                           unsigned long long seed,
                                                           unsigned long long offset, long long low,
                                                           unsigned long long span) {
    whole<LongWords>(out, n, seed, offset, low, span);
}
