// half and half2: every operation rounds once, to nearest even, as the hardware does.
#pragma once
#include "cuemu/small_float.h"

CUEMU_SMALL_FLOAT(__half, cuemu::Half)
template <> struct cuemu::Number<__half> { static constexpr CuemuParamKind kind = CUEMU_HALF; };
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

CUEMU_INLINE __half __float2half(float x) { return __half(x); }
CUEMU_INLINE __half __float2half_rn(float x) { return __half(x); }
CUEMU_INLINE __half __double2half(double x) { return __half::from_double(x); }
CUEMU_INLINE float __half2float(__half x) { return (float)x; }
CUEMU_INLINE __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
CUEMU_INLINE __half2 __float2half2_rn(float x) { return __half2(__half(x), __half(x)); }
CUEMU_INLINE __half2 __float22half2_rn(float2 v) { return __floats2half2_rn(v.x, v.y); }
CUEMU_INLINE float2 __half22float2(__half2 v) { return make_float2((float)v.x, (float)v.y); }
CUEMU_INLINE __half __int2half_rn(int x) { return __half::from_double((double)x); }
CUEMU_INLINE int __half2int_rn(__half x) { return __float2int_rn((float)x); }
CUEMU_INLINE int __half2int_rz(__half x) { return __float2int_rz((float)x); }
CUEMU_INLINE __half2 __half2half2(__half x) { return __half2(x, x); }
CUEMU_INLINE __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
CUEMU_INLINE __half2 make_half2(__half x, __half y) { return __half2(x, y); }
CUEMU_INLINE __half __low2half(__half2 v) { return v.x; }
CUEMU_INLINE __half __high2half(__half2 v) { return v.y; }
CUEMU_INLINE float __low2float(__half2 v) { return (float)v.x; }
CUEMU_INLINE float __high2float(__half2 v) { return (float)v.y; }
CUEMU_INLINE __half2 __lowhigh2highlow(__half2 v) { return __half2(v.y, v.x); }
CUEMU_INLINE unsigned short __half_as_ushort(__half x) { return x.bits; }
CUEMU_INLINE short __half_as_short(__half x) { return (short)x.bits; }
CUEMU_INLINE __half __ushort_as_half(unsigned short x) { return __half::of_bits(x); }
CUEMU_INLINE __half __short_as_half(short x) { return __half::of_bits((unsigned short)x); }
