// cuRAND's device functions. Philox gives cuRAND's numbers; the default generator is Philox here, too,
// so its numbers are other ones than XORWOW's. Sobol's sequence has Joe and Kuo's direction numbers.
#pragma once

#include "philox.cuh"  // of the kernel shelf

struct curandStatePhilox4_32_10_t {
    unsigned counter[4], key[2], output[4];
    int next, has_normal;
    float normal;
};
typedef curandStatePhilox4_32_10_t curandStatePhilox4_32_10;
typedef curandStatePhilox4_32_10_t curandState;
typedef curandStatePhilox4_32_10_t curandState_t;
typedef curandStatePhilox4_32_10_t curandStateXORWOW;
typedef curandStatePhilox4_32_10_t curandStateXORWOW_t;

namespace cuemu {
CUEMU_INLINE void philox(curandStatePhilox4_32_10_t* state) {
    const unsigned *c = state->counter, *k = state->key;
    const uint4 words = philox4x32_10(make_uint4(c[0], c[1], c[2], c[3]), make_uint2(k[0], k[1]));
    state->output[0] = words.x, state->output[1] = words.y, state->output[2] = words.z, state->output[3] = words.w;
}
CUEMU_INLINE void philox_advance(curandStatePhilox4_32_10_t* state, unsigned long long steps) {
    unsigned long long low = state->counter[0] | (unsigned long long)state->counter[1] << 32;
    unsigned long long high = state->counter[2] | (unsigned long long)state->counter[3] << 32;
    high += low + steps < low;
    low += steps;
    state->counter[0] = (unsigned)low, state->counter[1] = (unsigned)(low >> 32);
    state->counter[2] = (unsigned)high, state->counter[3] = (unsigned)(high >> 32);
    philox(state);
}
}  // namespace cuemu

CUEMU_INLINE void skipahead(unsigned long long n, curandStatePhilox4_32_10_t* state) {
    state->next += (int)(n % 4);
    cuemu::philox_advance(state, n / 4 + (state->next > 3));
    state->next %= 4;
}
CUEMU_INLINE void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                              curandStatePhilox4_32_10_t* state) {
    state->key[0] = (unsigned)seed, state->key[1] = (unsigned)(seed >> 32);
    state->counter[0] = state->counter[1] = 0;
    state->counter[2] = (unsigned)sequence, state->counter[3] = (unsigned)(sequence >> 32);
    state->next = state->has_normal = 0;
    state->normal = 0.0f;
    skipahead(offset, state);
}
CUEMU_INLINE unsigned curand(curandStatePhilox4_32_10_t* state) {
    const unsigned number = state->output[state->next];
    if (++state->next == 4) {
        cuemu::philox_advance(state, 1);
        state->next = 0;
    }
    return number;
}
CUEMU_INLINE uint4 curand4(curandStatePhilox4_32_10_t* state) {
    const unsigned x = curand(state), y = curand(state), z = curand(state), w = curand(state);
    return make_uint4(x, y, z, w);
}

namespace cuemu {
constexpr float kUnit = 2.3283064e-10f;  // 2^-32
CUEMU_INLINE float uniform(unsigned x) { return x * kUnit + kUnit / 2.0f; }
CUEMU_INLINE float2 normals(unsigned x, unsigned y) {
    const float radius = sqrtf(-2.0f * logf(uniform(x))), angle = y * (kUnit * 6.2831855f) + kUnit * 3.14159265f;
    return make_float2(sinf(angle) * radius, cosf(angle) * radius);
}
}  // namespace cuemu

CUEMU_INLINE float curand_uniform(curandStatePhilox4_32_10_t* state) { return cuemu::uniform(curand(state)); }
CUEMU_INLINE double curand_uniform_double(curandStatePhilox4_32_10_t* state) {
    const unsigned long long x = curand(state), y = curand(state);
    return (double)(x ^ y << 21) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
}
CUEMU_INLINE float4 curand_uniform4(curandStatePhilox4_32_10_t* state) {
    const uint4 v = curand4(state);
    return make_float4(cuemu::uniform(v.x), cuemu::uniform(v.y), cuemu::uniform(v.z), cuemu::uniform(v.w));
}
CUEMU_INLINE float2 curand_normal2(curandStatePhilox4_32_10_t* state) {
    const unsigned x = curand(state), y = curand(state);
    return cuemu::normals(x, y);
}
CUEMU_INLINE float4 curand_normal4(curandStatePhilox4_32_10_t* state) {
    const float2 a = curand_normal2(state), b = curand_normal2(state);
    return make_float4(a.x, a.y, b.x, b.y);
}
CUEMU_INLINE float curand_normal(curandStatePhilox4_32_10_t* state) {
    state->has_normal = !state->has_normal;
    if (!state->has_normal) return state->normal;
    const float2 both = curand_normal2(state);
    state->normal = both.y;
    return both.x;
}
CUEMU_INLINE double2 curand_normal2_double(curandStatePhilox4_32_10_t* state) {
    const double radius = sqrt(-2.0 * log(curand_uniform_double(state)));
    const double angle = 6.283185307179586 * curand_uniform_double(state);
    return make_double2(radius * sin(angle), radius * cos(angle));
}
CUEMU_INLINE double curand_normal_double(curandStatePhilox4_32_10_t* state) { return curand_normal2_double(state).x; }

namespace cuemu {
template <class Word> struct Sobol {
    unsigned long long i;
    Word x, directions[8 * sizeof(Word)];
};
template <class Word> CUEMU_INLINE void start(const Word* directions, unsigned long long offset, Sobol<Word>* state) {
    state->i = offset, state->x = 0;
    for (unsigned bit = 0; bit < 8 * sizeof(Word); ++bit) {
        state->directions[bit] = directions[bit];
        if ((offset ^ offset >> 1) >> bit & 1) state->x ^= directions[bit];  // Gray's code of the offset
    }
}
template <class Word> CUEMU_INLINE Word next(Sobol<Word>* state) {
    const Word now = state->x;
    const int bit = __ffsll((long long)~state->i++) - 1;
    if (bit >= 0 && bit < (int)(8 * sizeof(Word))) state->x ^= state->directions[bit];
    return now;
}
}  // namespace cuemu
typedef unsigned curandDirectionVectors32_t[32];
typedef unsigned long long curandDirectionVectors64_t[64];
typedef cuemu::Sobol<unsigned> curandStateSobol32_t;
typedef cuemu::Sobol<unsigned long long> curandStateSobol64_t;
typedef curandStateSobol32_t curandStateSobol32;
typedef curandStateSobol64_t curandStateSobol64;

CUEMU_INLINE void curand_init(curandDirectionVectors32_t directions, unsigned offset, curandStateSobol32_t* state) {
    cuemu::start(directions, offset, state);
}
CUEMU_INLINE void curand_init(curandDirectionVectors64_t directions, unsigned long long offset, curandStateSobol64_t* state) {
    cuemu::start(directions, offset, state);
}
CUEMU_INLINE unsigned curand(curandStateSobol32_t* state) { return cuemu::next(state); }
CUEMU_INLINE unsigned long long curand(curandStateSobol64_t* state) { return cuemu::next(state); }
CUEMU_INLINE float curand_uniform(curandStateSobol32_t* state) { return cuemu::uniform(curand(state)); }
CUEMU_INLINE float curand_uniform(curandStateSobol64_t* state) { return cuemu::uniform((unsigned)(curand(state) >> 32)); }
CUEMU_INLINE double curand_uniform_double(curandStateSobol32_t* state) {
    return curand(state) * 2.3283064365386963e-10 + 1.1641532182693481e-10;  // 2^-32 and half of it
}
CUEMU_INLINE double curand_uniform_double(curandStateSobol64_t* state) {
    return (double)(curand(state) >> 11) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
}
