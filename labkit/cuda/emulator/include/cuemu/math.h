// Device math: CUDA's float overloads, intrinsics and bit tricks over the host's libm.
#pragma once

// CUDA's overloads for float. A file may include <cmath>, whose functions of these names then win:
// an overload here is a template, and C++ prefers a function; and it stands in a namespace of its
// own, so that `using ::exp` in <cmath> does not find it.
namespace cuemu {
namespace overloads {
template <class T, class As> using Only = typename EnableIf<Same<T, As>::value>::type;
#define CUEMU_FLOAT1(NAME) \
    template <class T, Only<T, float> = 0> CUEMU_INLINE float NAME(T x) { return NAME##f(x); }
CUEMU_FLOAT1(sqrt)
CUEMU_FLOAT1(cbrt)
CUEMU_FLOAT1(exp)
CUEMU_FLOAT1(exp2)
CUEMU_FLOAT1(expm1)
CUEMU_FLOAT1(log)
CUEMU_FLOAT1(log2)
CUEMU_FLOAT1(log10)
CUEMU_FLOAT1(log1p)
CUEMU_FLOAT1(sin)
CUEMU_FLOAT1(cos)
CUEMU_FLOAT1(tan)
CUEMU_FLOAT1(asin)
CUEMU_FLOAT1(acos)
CUEMU_FLOAT1(atan)
CUEMU_FLOAT1(sinh)
CUEMU_FLOAT1(cosh)
CUEMU_FLOAT1(tanh)
CUEMU_FLOAT1(erf)
CUEMU_FLOAT1(erfc)
CUEMU_FLOAT1(floor)
CUEMU_FLOAT1(ceil)
CUEMU_FLOAT1(round)
CUEMU_FLOAT1(rint)
CUEMU_FLOAT1(trunc)
CUEMU_FLOAT1(fabs)
#define CUEMU_FLOAT2(NAME) \
    template <class T, Only<T, float> = 0> CUEMU_INLINE float NAME(T x, T y) { return NAME##f(x, y); }
CUEMU_FLOAT2(pow)
CUEMU_FLOAT2(fmod)
CUEMU_FLOAT2(fmin)
CUEMU_FLOAT2(fmax)
CUEMU_FLOAT2(atan2)
CUEMU_FLOAT2(hypot)
CUEMU_FLOAT2(copysign)
#undef CUEMU_FLOAT1
#undef CUEMU_FLOAT2
template <class T, Only<T, float> = 0> CUEMU_INLINE float fma(T x, T y, T z) { return fmaf(x, y, z); }
template <class T, Only<T, float> = 0> CUEMU_INLINE float abs(T x) { return fabsf(x); }
template <class T, Only<T, double> = 0> CUEMU_INLINE double abs(T x) { return ::fabs(x); }
template <class T, Only<T, long long> = 0> CUEMU_INLINE long long abs(T x) { return x < 0 ? -x : x; }
template <class A, class B> CUEMU_INLINE unsigned umin(A x, B y) { return (unsigned)y < (unsigned)x ? y : x; }
template <class A, class B> CUEMU_INLINE unsigned umax(A x, B y) { return (unsigned)x < (unsigned)y ? y : x; }
#define CUEMU_ASKED(NAME, T, ANSWER) \
    template <class A, Only<A, T> = 0> CUEMU_INLINE bool NAME(A x) { return ANSWER; }
#define CUEMU_ASKED2(NAME, ANSWER) CUEMU_ASKED(NAME, float, ANSWER) CUEMU_ASKED(NAME, double, ANSWER)
#undef isnan  // <math.h> has macros, <cmath> takes them away
#undef isinf
#undef isfinite
#undef signbit
CUEMU_ASKED2(isnan, __builtin_isnan(x))
CUEMU_ASKED2(isinf, __builtin_isinf(x))
CUEMU_ASKED2(isfinite, __builtin_isfinite(x))
CUEMU_ASKED2(signbit, __builtin_signbit(x))
#undef CUEMU_ASKED
#undef CUEMU_ASKED2
}  // namespace overloads
}  // namespace cuemu
using namespace cuemu::overloads;
extern "C" int abs(int) noexcept;

CUEMU_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
CUEMU_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
CUEMU_INLINE float rsqrt(float x) { return rsqrtf(x); }
CUEMU_INLINE float exp10f_(float x) { return powf(10.0f, x); }
CUEMU_INLINE float sinpif(float x) { return sinf(x * 3.14159265358979f); }
CUEMU_INLINE float cospif(float x) { return cosf(x * 3.14159265358979f); }
CUEMU_INLINE void sincospi(double x, double* sine, double* cosine) {
    *sine = sin(x * 3.141592653589793), *cosine = cos(x * 3.141592653589793);
}
CUEMU_INLINE float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
CUEMU_INLINE float fdividef(float x, float y) { return x / y; }
CUEMU_INLINE float __saturatef(float x) { return x > 1.0f ? 1.0f : x > 0.0f ? x : 0.0f; }

// glibc declares __expf and friends as its own: a macro avoids the clash.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f_(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __sincosf(x, s, c) sincosf(x, s, c)
#define __fdividef(x, y) ((float)(x) / (float)(y))

#define CUEMU_ROUNDED(SUFFIX, T, LETTER)                                                    \
    CUEMU_INLINE T __##LETTER##add_##SUFFIX(T x, T y) { return x + y; }                     \
    CUEMU_INLINE T __##LETTER##sub_##SUFFIX(T x, T y) { return x - y; }                     \
    CUEMU_INLINE T __##LETTER##mul_##SUFFIX(T x, T y) { return x * y; }                     \
    CUEMU_INLINE T __##LETTER##div_##SUFFIX(T x, T y) { return x / y; }
CUEMU_ROUNDED(rn, float, f)
CUEMU_ROUNDED(rn, double, d)
// Rounded down, up, or towards zero: computed wider, then moved by one step where need be.
namespace cuemu {
CUEMU_INLINE float step_to(float x, float to) { return nextafterf(x, to); }
CUEMU_INLINE double step_to(double x, double to) { return nextafter(x, to); }
template <class T, class Wide> CUEMU_INLINE T down(Wide exact) {
    const T near = (T)exact;
    return (Wide)near > exact ? step_to(near, (T)-__builtin_inf()) : near;
}
template <class T, class Wide> CUEMU_INLINE T up(Wide exact) {
    const T near = (T)exact;
    return (Wide)near < exact ? step_to(near, (T)__builtin_inf()) : near;
}
template <class T, class Wide> CUEMU_INLINE T to_zero(Wide exact) { return exact < 0 ? up<T>(exact) : down<T>(exact); }
}  // namespace cuemu
#define CUEMU_DIRECTED(SUFFIX, T, WIDE, LETTER, HOW)                                              \
    CUEMU_INLINE T __##LETTER##add_##SUFFIX(T x, T y) { return cuemu::HOW<T>((WIDE)x + (WIDE)y); } \
    CUEMU_INLINE T __##LETTER##sub_##SUFFIX(T x, T y) { return cuemu::HOW<T>((WIDE)x - (WIDE)y); } \
    CUEMU_INLINE T __##LETTER##mul_##SUFFIX(T x, T y) { return cuemu::HOW<T>((WIDE)x * (WIDE)y); } \
    CUEMU_INLINE T __##LETTER##div_##SUFFIX(T x, T y) { return cuemu::HOW<T>((WIDE)x / (WIDE)y); }
CUEMU_DIRECTED(rd, float, double, f, down)
CUEMU_DIRECTED(ru, float, double, f, up)
CUEMU_DIRECTED(rz, float, double, f, to_zero)
CUEMU_DIRECTED(rd, double, long double, d, down)
CUEMU_DIRECTED(ru, double, long double, d, up)
CUEMU_DIRECTED(rz, double, long double, d, to_zero)
CUEMU_INLINE double __dsqrt_rd(double x) { return cuemu::down<double>(sqrtl((long double)x)); }
CUEMU_INLINE double __dsqrt_ru(double x) { return cuemu::up<double>(sqrtl((long double)x)); }
CUEMU_INLINE double __dsqrt_rn(double x) { return sqrt(x); }
CUEMU_INLINE double __drcp_rd(double x) { return cuemu::down<double>(1.0L / x); }
CUEMU_INLINE double __drcp_ru(double x) { return cuemu::up<double>(1.0L / x); }
CUEMU_INLINE float __fsqrt_rd(float x) { return cuemu::down<float>(sqrt((double)x)); }
CUEMU_INLINE float __fsqrt_ru(float x) { return cuemu::up<float>(sqrt((double)x)); }
CUEMU_INLINE float __frcp_rd(float x) { return cuemu::down<float>(1.0 / x); }
CUEMU_INLINE float __frcp_ru(float x) { return cuemu::up<float>(1.0 / x); }
CUEMU_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
CUEMU_INLINE float __frcp_rn(float x) { return 1.0f / x; }
CUEMU_INLINE float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
CUEMU_INLINE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
CUEMU_INLINE double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

CUEMU_INLINE int __float_as_int(float x) { return cuemu::bits<int>(x); }
CUEMU_INLINE unsigned __float_as_uint(float x) { return cuemu::bits<unsigned>(x); }
CUEMU_INLINE float __int_as_float(int x) { return cuemu::bits<float>(x); }
CUEMU_INLINE float __uint_as_float(unsigned x) { return cuemu::bits<float>(x); }
CUEMU_INLINE long long __double_as_longlong(double x) { return cuemu::bits<long long>(x); }
CUEMU_INLINE double __longlong_as_double(long long x) { return cuemu::bits<double>(x); }

// The GPU clamps where C++ leaves the conversion undefined.
CUEMU_INLINE int cuemu_to_int(double x) {
    return x != x ? 0 : x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? INT_MIN : (int)x;
}
CUEMU_INLINE unsigned cuemu_to_uint(double x) {
    return x != x || x <= 0.0 ? 0u : x >= 4294967295.0 ? 4294967295u : (unsigned)x;
}
CUEMU_INLINE int __float2int_rn(float x) { return cuemu_to_int(rint((double)x)); }
CUEMU_INLINE int __float2int_rz(float x) { return cuemu_to_int(x); }
CUEMU_INLINE int __float2int_rd(float x) { return cuemu_to_int(floor((double)x)); }
CUEMU_INLINE int __float2int_ru(float x) { return cuemu_to_int(ceil((double)x)); }
CUEMU_INLINE unsigned __float2uint_rn(float x) { return cuemu_to_uint(rint((double)x)); }
CUEMU_INLINE unsigned __float2uint_rz(float x) { return cuemu_to_uint(x); }
CUEMU_INLINE float __int2float_rn(int x) { return (float)x; }
CUEMU_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
CUEMU_INLINE float __double2float_rn(double x) { return (float)x; }
CUEMU_INLINE float __ll2float_rn(long long x) { return (float)x; }

CUEMU_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
CUEMU_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CUEMU_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
CUEMU_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
CUEMU_INLINE int __ffs(int x) { return __builtin_ffs(x); }
CUEMU_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
CUEMU_INLINE unsigned __brev(unsigned x) {
    x = (x >> 16) | (x << 16);
    x = ((x & 0xff00ff00u) >> 8) | ((x & 0x00ff00ffu) << 8);
    x = ((x & 0xf0f0f0f0u) >> 4) | ((x & 0x0f0f0f0fu) << 4);
    x = ((x & 0xccccccccu) >> 2) | ((x & 0x33333333u) << 2);
    return ((x & 0xaaaaaaaau) >> 1) | ((x & 0x55555555u) << 1);
}
CUEMU_INLINE int __mulhi(int x, int y) { return (int)(((long long)x * y) >> 32); }
CUEMU_INLINE unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)(((unsigned long long)x * y) >> 32);
}
CUEMU_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)(((unsigned __int128)x * y) >> 64);
}
CUEMU_INLINE int __mul24(int x, int y) { return x * y; }
CUEMU_INLINE unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
CUEMU_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)(((((unsigned long long)hi << 32) | lo) << (shift & 31)) >> 32);
}
CUEMU_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)((((unsigned long long)hi << 32) | lo) >> (shift & 31));
}
CUEMU_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = ((unsigned long long)y << 32) | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = (selector >> (4 * i)) & 0xf;
        unsigned byte = (unsigned)(both >> (8 * (pick & 7))) & 0xff;
        if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}
CUEMU_INLINE int __dp4a(int x, int y, int sum) {
    for (int i = 0; i < 4; ++i) sum += (signed char)(x >> (8 * i)) * (signed char)(y >> (8 * i));
    return sum;
}
CUEMU_INLINE unsigned __sad(int x, int y, unsigned z) {
    return z + (unsigned)(x < y ? (long long)y - x : (long long)x - y);
}

// Four bytes at once: |x - y|, added up or byte by byte.
CUEMU_INLINE unsigned __vsadu4(unsigned x, unsigned y) {
    unsigned sum = 0;
    for (int i = 0; i < 32; i += 8) sum += __sad((int)(x >> i & 0xff), (int)(y >> i & 0xff), 0);
    return sum;
}
CUEMU_INLINE unsigned __vabsdiffu4(unsigned x, unsigned y) {
    unsigned all = 0;
    for (int i = 0; i < 32; i += 8) all |= __sad((int)(x >> i & 0xff), (int)(y >> i & 0xff), 0) << i;
    return all;
}

#define CUEMU_LOAD(NAME) \
    template <class T> CUEMU_INLINE T NAME(const T* address) { return *address; }
CUEMU_LOAD(__ldg)
CUEMU_LOAD(__ldca)
CUEMU_LOAD(__ldcg)
CUEMU_LOAD(__ldcs)
CUEMU_LOAD(__ldlu)
CUEMU_LOAD(__ldcv)
#define CUEMU_STORE(NAME) \
    template <class T> CUEMU_INLINE void NAME(T* address, T value) { *address = value; }
CUEMU_STORE(__stwb)
CUEMU_STORE(__stcg)
CUEMU_STORE(__stcs)
CUEMU_STORE(__stwt)
#define __builtin_assume(condition) ((void)0)
#define __isShared(p) cuemu_unsupported_address_space_queries

namespace cuemu {
template <class A, class B> struct Wider { using type = decltype(A() + B()); };
template <class A> struct Wider<A, A> { using type = A; };
}  // namespace cuemu
template <class A, class B, typename cuemu::EnableIf<cuemu::is_number<A> && cuemu::is_number<B>>::type = 0>
CUEMU_INLINE typename cuemu::Wider<A, B>::type min(A x, B y) {
    using T = typename cuemu::Wider<A, B>::type;
    if constexpr (cuemu::Number<T>::kind == CUEMU_FLOAT) {
        return (T)x != (T)x ? (T)y : (T)y < (T)x ? (T)y : (T)x;  // a NaN loses, as in fminf
    } else {
        return (T)y < (T)x ? (T)y : (T)x;
    }
}
template <class A, class B, typename cuemu::EnableIf<cuemu::is_number<A> && cuemu::is_number<B>>::type = 0>
CUEMU_INLINE typename cuemu::Wider<A, B>::type max(A x, B y) {
    using T = typename cuemu::Wider<A, B>::type;
    if constexpr (cuemu::Number<T>::kind == CUEMU_FLOAT) {
        return (T)x != (T)x ? (T)y : (T)x < (T)y ? (T)y : (T)x;
    } else {
        return (T)x < (T)y ? (T)y : (T)x;
    }
}
