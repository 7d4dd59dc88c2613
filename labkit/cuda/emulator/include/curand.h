// cuRAND's host functions: the numbers of curand_kernel.h's Philox, drawn by the host and copied to the
// device in the generator's stream. Every pseudo-random generator is Philox here, so the numbers are other
// ones than cuRAND's; quasi-random ones are refused by name.
#pragma once
#include "curand_kernel.h"

#include <cstdio>
#include <vector>

#define CURAND_H_  // what public headers look for
typedef enum {
    CURAND_STATUS_SUCCESS = 0, CURAND_STATUS_VERSION_MISMATCH = 100, CURAND_STATUS_NOT_INITIALIZED = 101,
    CURAND_STATUS_ALLOCATION_FAILED = 102, CURAND_STATUS_TYPE_ERROR = 103, CURAND_STATUS_OUT_OF_RANGE = 104,
    CURAND_STATUS_LENGTH_NOT_MULTIPLE = 105, CURAND_STATUS_DOUBLE_PRECISION_REQUIRED = 106,
    CURAND_STATUS_LAUNCH_FAILURE = 201, CURAND_STATUS_PREEXISTING_FAILURE = 202,
    CURAND_STATUS_INITIALIZATION_FAILED = 203, CURAND_STATUS_ARCH_MISMATCH = 204, CURAND_STATUS_INTERNAL_ERROR = 999
} curandStatus_t;
typedef enum {
    CURAND_RNG_PSEUDO_DEFAULT = 100, CURAND_RNG_PSEUDO_XORWOW = 101, CURAND_RNG_PSEUDO_MRG32K3A = 121,
    CURAND_RNG_PSEUDO_MTGP32 = 141, CURAND_RNG_PSEUDO_MT19937 = 142, CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161,
    CURAND_RNG_QUASI_DEFAULT = 200, CURAND_RNG_QUASI_SOBOL32 = 201, CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 = 202,
    CURAND_RNG_QUASI_SOBOL64 = 203, CURAND_RNG_QUASI_SCRAMBLED_SOBOL64 = 204
} curandRngType_t;
typedef curandStatus_t curandStatus;
typedef curandRngType_t curandRngType;

struct curandGenerator_st {
    bool on_host;
    unsigned long long seed, drawn;  // words of 32 bits given so far
    cudaStream_t stream;
};
typedef curandGenerator_st* curandGenerator_t;

inline curandStatus_t cuemu_generator(curandGenerator_t* made, curandRngType_t type, bool on_host) {
    if (type >= CURAND_RNG_QUASI_DEFAULT) {
        std::fprintf(stderr, "the emulator does not run cuRAND's quasi-random generators\n");
        return CURAND_STATUS_TYPE_ERROR;
    }
    *made = new curandGenerator_st{on_host, 0, 0, 0};
    return CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandCreateGenerator(curandGenerator_t* made, curandRngType_t type) {
    return cuemu_generator(made, type, false);
}
inline curandStatus_t curandCreateGeneratorHost(curandGenerator_t* made, curandRngType_t type) {
    return cuemu_generator(made, type, true);
}
inline curandStatus_t curandDestroyGenerator(curandGenerator_t generator) { return delete generator, CURAND_STATUS_SUCCESS; }
inline curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
    generator->seed = seed, generator->drawn = 0;
    return CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t, unsigned) { return CURAND_STATUS_TYPE_ERROR; }
inline curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
    return generator->drawn = offset, CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
    return generator->stream = stream, CURAND_STATUS_SUCCESS;
}

template <class T, class Draw>
curandStatus_t cuemu_fill(curandGenerator_t generator, T* out, size_t count, Draw draw, int words = sizeof(T) / 4) {
    curandStatePhilox4_32_10_t state;
    curand_init(generator->seed, 0, generator->drawn, &state);
    std::vector<T> numbers(count);
    for (T& one : numbers) one = draw(&state);
    generator->drawn += words * count;
    if (generator->on_host) {
        for (size_t i = 0; i < count; ++i) out[i] = numbers[i];
        return CURAND_STATUS_SUCCESS;
    }
    // From pageable memory: its bytes have been taken when the call returns.
    const cudaError_t told = cudaMemcpyAsync(out, numbers.data(), count * sizeof(T), cudaMemcpyHostToDevice, generator->stream);
    return told == cudaSuccess ? CURAND_STATUS_SUCCESS : CURAND_STATUS_LAUNCH_FAILURE;
}
inline curandStatus_t curandGenerate(curandGenerator_t generator, unsigned* out, size_t count) {
    return cuemu_fill(generator, out, count, [](curandStatePhilox4_32_10_t* s) { return curand(s); });
}
inline curandStatus_t curandGenerateUniform(curandGenerator_t generator, float* out, size_t count) {
    return cuemu_fill(generator, out, count, [](curandStatePhilox4_32_10_t* s) { return curand_uniform(s); });
}
inline curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double* out, size_t count) {
    return cuemu_fill(generator, out, count, [](curandStatePhilox4_32_10_t* s) { return curand_uniform_double(s); });
}
inline curandStatus_t curandGenerateNormal(curandGenerator_t generator, float* out, size_t count, float mean, float deviation) {
    if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    return cuemu_fill(generator, out, count, [=](curandStatePhilox4_32_10_t* s) { return mean + deviation * curand_normal(s); });
}
inline curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double* out, size_t count, double mean,
                                                 double deviation) {
    if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    return cuemu_fill(generator, out, count,
                      [=](curandStatePhilox4_32_10_t* s) { return mean + deviation * curand_normal_double(s); }, 4);
}
