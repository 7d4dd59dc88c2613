// Two-byte floating point in terms of float and double, correctly rounded.
//
// An operation is done in double and rounded "to odd" on the way down: the lowest bit remembers
// that something was lost, so the last rounding sees a tie only where there truly is one.
#pragma once

namespace cuemu {

CUEMU_INLINE float round_to_odd(double x) {
    const float nearest = (float)x;
    if ((double)nearest == x || x != x || nearest - nearest != 0.0f) return nearest;
    unsigned pattern = bits<unsigned>(nearest);
    const bool away = x > 0 ? (double)nearest > x : (double)nearest < x;
    if (pattern & 1) return nearest;
    return bits<float>(away ? pattern - 1 : pattern + 1);
}

// a + b with the lowest bit set if anything was lost.
CUEMU_INLINE double add_to_odd(double a, double b) {
    const double sum = a + b;
    if (sum - sum != 0.0) return sum;
    const double b_in = sum - a;
    const double lost = (a - (sum - b_in)) + (b - b_in);
    unsigned long long pattern = bits<unsigned long long>(sum);
    if (lost == 0.0 || (pattern & 1)) return sum;
    const bool away = (lost > 0) == (sum < 0);  // the true value is nearer to zero than the sum
    return bits<double>(away ? pattern - 1 : pattern + 1);
}

struct Half {
    static CUEMU_MEMBER_FUNCTION unsigned short round(float value) {
        const unsigned pattern = bits<unsigned>(value);
        const unsigned sign = pattern >> 16 & 0x8000u, magnitude = pattern & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return (unsigned short)(sign | 0x7fffu);  // CUDA's one NaN
        if (magnitude >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
        if (magnitude < 0x38800000u) {  // subnormal: the float unit rounds at the right place
            const float shifted = bits<float>(magnitude) + 0.5f;
            return (unsigned short)(sign | (bits<unsigned>(shifted) - 0x3f000000u));
        }
        const unsigned rounded = magnitude + 0x0fffu + (magnitude >> 13 & 1);
        return (unsigned short)(sign | ((rounded - 0x38000000u) >> 13));
    }
    static CUEMU_MEMBER_FUNCTION float widen(unsigned short pattern) {
        const unsigned sign = (unsigned)(pattern & 0x8000) << 16, rest = pattern & 0x7fffu;
        if (rest >= 0x7c00u) return bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
        if (rest >= 0x0400u) return bits<float>(sign | ((rest << 13) + 0x38000000u));
        const float magnitude = bits<float>((rest) | 0x3f000000u) - 0.5f;
        return bits<float>(sign | bits<unsigned>(magnitude));
    }
};

struct Bfloat16 {
    static CUEMU_MEMBER_FUNCTION unsigned short round(float value) {
        const unsigned pattern = bits<unsigned>(value);
        if ((pattern & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
        return (unsigned short)((pattern + 0x7fffu + (pattern >> 16 & 1)) >> 16);
    }
    static CUEMU_MEMBER_FUNCTION float widen(unsigned short pattern) { return bits<float>((unsigned)pattern << 16); }
};

}  // namespace cuemu

#define CUEMU_SMALL_FLOAT(T, FORMAT)                                                                \
    struct alignas(2) T {                                                                           \
        unsigned short bits;                                                                        \
        T() = default;                                                                              \
        CUEMU_MEMBER_FUNCTION T(float x) : bits(FORMAT::round(x)) {}                                         \
        CUEMU_MEMBER_FUNCTION T(double x) : bits(FORMAT::round(cuemu::round_to_odd(x))) {}                   \
        CUEMU_MEMBER_FUNCTION T(int x) : T((double)x) {}                                                     \
        CUEMU_MEMBER_FUNCTION T(unsigned x) : T((double)x) {}                                                \
        CUEMU_MEMBER_FUNCTION T(long long x) : T((double)x) {}                                               \
        static CUEMU_MEMBER_FUNCTION T of_bits(unsigned short pattern) {                                     \
            T value;                                                                                \
            value.bits = pattern;                                                                   \
            return value;                                                                           \
        }                                                                                           \
        static CUEMU_MEMBER_FUNCTION T from_double(double x) { return T(x); }                                \
        CUEMU_MEMBER_FUNCTION operator float() const { return FORMAT::widen(bits); }                         \
        CUEMU_MEMBER_FUNCTION T& operator+=(T o) { return *this = T((double)(float)*this + (float)o); }      \
        CUEMU_MEMBER_FUNCTION T& operator-=(T o) { return *this = T((double)(float)*this - (float)o); }      \
        CUEMU_MEMBER_FUNCTION T& operator*=(T o) { return *this = T((double)(float)*this * (float)o); }      \
        CUEMU_MEMBER_FUNCTION T& operator/=(T o) { return *this = T((float)*this / (float)o); }              \
    };                                                                                              \
    CUEMU_INLINE T operator+(T a, T b) { return a += b; }                                           \
    CUEMU_INLINE T operator-(T a, T b) { return a -= b; }                                           \
    CUEMU_INLINE T operator*(T a, T b) { return a *= b; }                                           \
    CUEMU_INLINE T operator/(T a, T b) { return a /= b; }                                           \
    CUEMU_INLINE T operator-(T a) { return T::of_bits(a.bits ^ 0x8000); }                           \
    CUEMU_INLINE T __hadd(T a, T b) { return a + b; }                                               \
    CUEMU_INLINE T __hadd_rn(T a, T b) { return a + b; }                                            \
    CUEMU_INLINE T __hsub(T a, T b) { return a - b; }                                               \
    CUEMU_INLINE T __hmul(T a, T b) { return a * b; }                                               \
    CUEMU_INLINE T __hmul_rn(T a, T b) { return a * b; }                                            \
    CUEMU_INLINE T __hdiv(T a, T b) { return a / b; }                                               \
    CUEMU_INLINE T __hneg(T a) { return -a; }                                                       \
    CUEMU_INLINE T __habs(T a) { return T::of_bits(a.bits & 0x7fff); }                              \
    CUEMU_INLINE T __hfma(T a, T b, T c) {                                                          \
        return T(cuemu::add_to_odd((double)(float)a * (float)b, (double)(float)c));                 \
    }                                                                                               \
    CUEMU_INLINE T __hfma_relu(T a, T b, T c) {                                                     \
        const T r = __hfma(a, b, c);                                                                \
        return (float)r < 0.0f ? T(0.0f) : r;                                                       \
    }                                                                                               \
    CUEMU_INLINE bool __heq(T a, T b) { return (float)a == (float)b; }                              \
    CUEMU_INLINE bool __hne(T a, T b) { return (float)a != (float)b; }                              \
    CUEMU_INLINE bool __hlt(T a, T b) { return (float)a < (float)b; }                               \
    CUEMU_INLINE bool __hle(T a, T b) { return (float)a <= (float)b; }                              \
    CUEMU_INLINE bool __hgt(T a, T b) { return (float)a > (float)b; }                               \
    CUEMU_INLINE bool __hge(T a, T b) { return (float)a >= (float)b; }                              \
    CUEMU_INLINE bool __hisnan(T a) { return (float)a != (float)a; }                                \
    CUEMU_INLINE int __hisinf(T a) {                                                                \
        return (float)a == __builtin_inff() ? 1 : (float)a == -__builtin_inff() ? -1 : 0;           \
    }                                                                                               \
    CUEMU_INLINE T __hmin(T a, T b) { return T(fminf((float)a, (float)b)); }                        \
    CUEMU_INLINE T __hmax(T a, T b) { return T(fmaxf((float)a, (float)b)); }                        \
    CUEMU_INLINE T hsqrt(T a) { return T(sqrt((double)(float)a)); }                                 \
    CUEMU_INLINE T hrsqrt(T a) { return T(1.0 / sqrt((double)(float)a)); }                          \
    CUEMU_INLINE T hrcp(T a) { return T(1.0 / (double)(float)a); }                                  \
    CUEMU_INLINE T hexp(T a) { return T(exp((double)(float)a)); }                                   \
    CUEMU_INLINE T hexp2(T a) { return T(exp2((double)(float)a)); }                                 \
    CUEMU_INLINE T hlog(T a) { return T(log((double)(float)a)); }                                   \
    CUEMU_INLINE T hlog2(T a) { return T(log2((double)(float)a)); }                                 \
    CUEMU_INLINE T hsin(T a) { return T(sin((double)(float)a)); }                                   \
    CUEMU_INLINE T hcos(T a) { return T(cos((double)(float)a)); }                                   \
    CUEMU_INLINE T htanh(T a) { return T(tanh((double)(float)a)); }                                 \
    CUEMU_INLINE T hfloor(T a) { return T(floorf((float)a)); }                                      \
    CUEMU_INLINE T hceil(T a) { return T(ceilf((float)a)); }                                        \
    CUEMU_INLINE T hrint(T a) { return T(rintf((float)a)); }                                        \
    CUEMU_INLINE T htrunc(T a) { return T(truncf((float)a)); }                                      \
    CUEMU_INLINE T atomicAdd(T* address, T value) {                                                 \
        return cuemu::atomic_update(address, cuemu::Plus<T>{value});                                \
    }                                                                                               \
    CUEMU_SMALL_PAIR(T, T##2)

#define CUEMU_SMALL_PAIR(T, T2)                                                                     \
    struct alignas(4) T2 {                                                                          \
        T x, y;                                                                                     \
        CUEMU_SMALL_PAIR_COPY(T2)                                                                   \
        CUEMU_MEMBER_FUNCTION T2(T x_, T y_) : x(x_), y(y_) {}                                               \
    };                                                                                              \
    CUEMU_INLINE T2 operator+(T2 a, T2 b) { return T2(a.x + b.x, a.y + b.y); }                      \
    CUEMU_INLINE T2 operator-(T2 a, T2 b) { return T2(a.x - b.x, a.y - b.y); }                      \
    CUEMU_INLINE T2 operator*(T2 a, T2 b) { return T2(a.x * b.x, a.y * b.y); }                      \
    CUEMU_INLINE T2 operator/(T2 a, T2 b) { return T2(a.x / b.x, a.y / b.y); }                      \
    CUEMU_INLINE T2 __hadd2(T2 a, T2 b) { return a + b; }                                           \
    CUEMU_INLINE T2 __hsub2(T2 a, T2 b) { return a - b; }                                           \
    CUEMU_INLINE T2 __hmul2(T2 a, T2 b) { return a * b; }                                           \
    CUEMU_INLINE T2 __h2div(T2 a, T2 b) { return a / b; }                                           \
    CUEMU_INLINE T2 __hneg2(T2 a) { return T2(-a.x, -a.y); }                                        \
    CUEMU_INLINE T2 __hfma2(T2 a, T2 b, T2 c) {                                                     \
        return T2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));                                    \
    }                                                                                               \
    CUEMU_INLINE T2 __hmin2(T2 a, T2 b) { return T2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }          \
    CUEMU_INLINE T2 __hmax2(T2 a, T2 b) { return T2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }          \
    CUEMU_INLINE T2 h2exp(T2 a) { return T2(hexp(a.x), hexp(a.y)); }                                \
    CUEMU_INLINE T2 atomicAdd(T2* address, T2 value) {                                              \
        return T2(atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y));                \
    }

#ifdef CUEMU_TRACE
#define CUEMU_SMALL_PAIR_COPY(T2) CUEMU_ONE_COPY(T2)
#else
#define CUEMU_SMALL_PAIR_COPY(T2) T2() = default;
#endif
