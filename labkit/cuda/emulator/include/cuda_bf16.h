// bfloat16 and its pair: every operation rounds once, to nearest even.
#pragma once
#include "cuemu/small_float.h"

CUEMU_SMALL_FLOAT(__nv_bfloat16, cuemu::Bfloat16)
template <> struct cuemu::Number<__nv_bfloat16> { static constexpr CuemuParamKind kind = CUEMU_BFLOAT16; };
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

CUEMU_INLINE __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
CUEMU_INLINE __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
CUEMU_INLINE __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16::from_double(x); }
CUEMU_INLINE float __bfloat162float(__nv_bfloat16 x) { return (float)x; }
CUEMU_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y));
}
CUEMU_INLINE __nv_bfloat162 __float2bfloat162_rn(float x) { return __floats2bfloat162_rn(x, x); }
CUEMU_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
CUEMU_INLINE float2 __bfloat1622float2(__nv_bfloat162 v) { return make_float2((float)v.x, (float)v.y); }
CUEMU_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return __nv_bfloat162(x, x); }
CUEMU_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return __nv_bfloat162(x, y);
}
CUEMU_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
CUEMU_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
CUEMU_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
CUEMU_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
CUEMU_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __nv_bfloat16::of_bits(x); }
