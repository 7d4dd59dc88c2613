// Complex numbers as pairs.
#pragma once
typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define CUEMU_COMPLEX(T, PAIR, MAKE, NAME, F)                                                                          \
    CUEMU_INLINE PAIR make_##NAME(T x, T y) { return MAKE(x, y); }                                                     \
    CUEMU_INLINE T cuCreal##F(PAIR z) { return z.x; }                                                                  \
    CUEMU_INLINE T cuCimag##F(PAIR z) { return z.y; }                                                                  \
    CUEMU_INLINE T cuCabs##F(PAIR z) { return ::hypot##F(z.x, z.y); }                                                  \
    CUEMU_INLINE PAIR cuConj##F(PAIR z) { return MAKE(z.x, -z.y); }                                                    \
    CUEMU_INLINE PAIR cuCadd##F(PAIR a, PAIR b) { return MAKE(a.x + b.x, a.y + b.y); }                                 \
    CUEMU_INLINE PAIR cuCsub##F(PAIR a, PAIR b) { return MAKE(a.x - b.x, a.y - b.y); }                                 \
    CUEMU_INLINE PAIR cuCmul##F(PAIR a, PAIR b) { return MAKE(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }         \
    CUEMU_INLINE PAIR cuCdiv##F(PAIR a, PAIR b) {                                                                      \
        const T all = b.x * b.x + b.y * b.y;                                                                           \
        return MAKE((a.x * b.x + a.y * b.y) / all, (a.y * b.x - a.x * b.y) / all);                                     \
    }
CUEMU_COMPLEX(float, float2, make_float2, cuFloatComplex, f)
CUEMU_COMPLEX(double, double2, make_double2, cuDoubleComplex, )
#undef CUEMU_COMPLEX
#define make_cuComplex make_cuFloatComplex
