// cuRAND's host functions: the numbers of curand_kernel.h's Philox, drawn by the host and copied to the
// device in the generator's stream. Every pseudo-random generator is Philox here, so the numbers are other
// ones than cuRAND's; of the quasi-random ones Sobol's are here, unscrambled, in ten dimensions.
#pragma once
#include "curand_kernel.h"

#include <cstdio>
#include <type_traits>
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
typedef enum {
    CURAND_ORDERING_PSEUDO_BEST = 100, CURAND_ORDERING_PSEUDO_DEFAULT = 101, CURAND_ORDERING_PSEUDO_SEEDED = 102,
    CURAND_ORDERING_PSEUDO_LEGACY = 103, CURAND_ORDERING_PSEUDO_DYNAMIC = 104, CURAND_ORDERING_QUASI_DEFAULT = 201
} curandOrdering_t;
typedef enum { CURAND_DIRECTION_VECTORS_32_JOEKUO6 = 101, CURAND_DIRECTION_VECTORS_64_JOEKUO6 = 103 } curandDirectionVectorSet_t;
typedef curandStatus_t curandStatus;
typedef curandRngType_t curandRngType;

namespace cuemu {
constexpr unsigned kSobolDimensions = 10;
// The directions of all dimensions, from Joe and Kuo's primitive polynomials (degree, coefficients) and first numbers.
template <class Word> Word (*sobol())[8 * sizeof(Word)] {
    constexpr int bits = 8 * sizeof(Word);
    static const struct { int degree, coefficients; Word first[5]; } polynomials[kSobolDimensions] = {
        {0, 0, {}},              {1, 0, {1}},             {2, 1, {1, 3}},          {3, 1, {1, 3, 1}},       {3, 2, {1, 1, 1}},
        {4, 1, {1, 1, 3, 3}},    {4, 4, {1, 3, 5, 13}},   {5, 2, {1, 1, 5, 5, 17}}, {5, 4, {1, 1, 5, 5, 5}}, {5, 7, {1, 1, 7, 11, 19}}};
    static Word made[kSobolDimensions][bits];
    for (unsigned d = 0; d < kSobolDimensions; ++d) {
        const auto& one = polynomials[d];
        Word* v = made[d];
        for (int i = 0; i < bits; ++i) {
            if (!one.degree || i < one.degree) {
                v[i] = (one.degree ? one.first[i] : Word(1)) << (bits - 1 - i);
                continue;
            }
            v[i] = v[i - one.degree] ^ v[i - one.degree] >> one.degree;
            for (int k = 1; k < one.degree; ++k) {
                if (one.coefficients >> (one.degree - 1 - k) & 1) v[i] ^= v[i - k];
            }
        }
    }
    return made;
}
}  // namespace cuemu
// All sets are the same ten dimensions.
inline curandStatus_t curandGetDirectionVectors32(curandDirectionVectors32_t** given, curandDirectionVectorSet_t) {
    return *given = cuemu::sobol<unsigned>(), CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandGetDirectionVectors64(curandDirectionVectors64_t** given, curandDirectionVectorSet_t) {
    return *given = cuemu::sobol<unsigned long long>(), CURAND_STATUS_SUCCESS;
}

struct curandGenerator_st {
    bool on_host;
    curandRngType_t type;
    unsigned dimensions;
    unsigned long long seed, drawn;  // words of 32 bits given so far; quasi-random: points
    cudaStream_t stream;
};
typedef curandGenerator_st* curandGenerator_t;

inline curandStatus_t cuemu_generator(curandGenerator_t* made, curandRngType_t type, bool on_host) {
    if (type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 || type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL64) {
        std::fprintf(stderr, "the emulator does not run cuRAND's scrambled generators\n");
        return CURAND_STATUS_TYPE_ERROR;
    }
    *made = new curandGenerator_st{on_host, type, 1, 0, 0, 0};
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
inline curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator, unsigned dimensions) {
    if (generator->type < CURAND_RNG_QUASI_DEFAULT) return CURAND_STATUS_TYPE_ERROR;
    if (!dimensions || dimensions > cuemu::kSobolDimensions) {
        std::fprintf(stderr, "the emulator does not run %u dimensions of a quasi-random generator, 1 to %u\n", dimensions,
                     cuemu::kSobolDimensions);
        return CURAND_STATUS_OUT_OF_RANGE;
    }
    return generator->dimensions = dimensions, CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t ordering) {
    const bool quasi = generator->type >= CURAND_RNG_QUASI_DEFAULT;
    return quasi == (ordering == CURAND_ORDERING_QUASI_DEFAULT) ? CURAND_STATUS_SUCCESS : CURAND_STATUS_OUT_OF_RANGE;
}
inline curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
    return generator->drawn = offset, CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
    return generator->stream = stream, CURAND_STATUS_SUCCESS;
}

template <class T> curandStatus_t cuemu_deliver(curandGenerator_t generator, T* out, const std::vector<T>& numbers) {
    if (generator->on_host) {
        for (size_t i = 0; i < numbers.size(); ++i) out[i] = numbers[i];
        return CURAND_STATUS_SUCCESS;
    }
    // From pageable memory: its bytes have been taken when the call returns.
    const size_t bytes = numbers.size() * sizeof(T);
    const cudaError_t told = cudaMemcpyAsync(out, numbers.data(), bytes, cudaMemcpyHostToDevice, generator->stream);
    return told == cudaSuccess ? CURAND_STATUS_SUCCESS : CURAND_STATUS_LAUNCH_FAILURE;
}
// Of each dimension all its points, one dimension after the other.
template <class State, class Word, class T, class Draw>
curandStatus_t cuemu_points(curandGenerator_t generator, T* out, size_t count, Word (*directions)[8 * sizeof(Word)], Draw draw) {
    if (count % generator->dimensions) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    const size_t points = count / generator->dimensions;
    std::vector<T> numbers;
    for (unsigned d = 0; d < generator->dimensions; ++d) {
        State state;
        curand_init(directions[d], generator->drawn, &state);
        for (size_t i = 0; i < points; ++i) numbers.push_back(draw(&state));
    }
    generator->drawn += points;
    return cuemu_deliver(generator, out, numbers);
}
template <class T, class Draw>
curandStatus_t cuemu_fill(curandGenerator_t generator, T* out, size_t count, Draw draw, int words = sizeof(T) / 4) {
    if (generator->type >= CURAND_RNG_QUASI_DEFAULT) {
        if constexpr (std::is_invocable_v<Draw, curandStateSobol32_t*>) {
            return generator->type == CURAND_RNG_QUASI_SOBOL64
                       ? cuemu_points<curandStateSobol64_t>(generator, out, count, cuemu::sobol<unsigned long long>(), draw)
                       : cuemu_points<curandStateSobol32_t>(generator, out, count, cuemu::sobol<unsigned>(), draw);
        }
        std::fprintf(stderr, "the emulator does not run normal numbers of cuRAND's quasi-random generators\n");
        return CURAND_STATUS_TYPE_ERROR;
    }
    curandStatePhilox4_32_10_t state;
    curand_init(generator->seed, 0, generator->drawn, &state);
    std::vector<T> numbers(count);
    for (T& one : numbers) one = draw(&state);
    generator->drawn += words * count;
    return cuemu_deliver(generator, out, numbers);
}
inline curandStatus_t curandGenerate(curandGenerator_t generator, unsigned* out, size_t count) {
    return cuemu_fill(generator, out, count, [](auto* s) { return (unsigned)curand(s); });
}
inline curandStatus_t curandGenerateUniform(curandGenerator_t generator, float* out, size_t count) {
    return cuemu_fill(generator, out, count, [](auto* s) { return curand_uniform(s); });
}
inline curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double* out, size_t count) {
    return cuemu_fill(generator, out, count, [](auto* s) { return curand_uniform_double(s); });
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
