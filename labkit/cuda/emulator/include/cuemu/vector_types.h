// int2, float4 and the rest, with CUDA's sizes and alignments, and make_*.
#pragma once

namespace cuemu {
template <int bytes> struct Raw;  // one machine access of that many bytes
template <> struct Raw<2> { typedef unsigned short __attribute__((may_alias)) type; };
template <> struct Raw<4> { typedef unsigned __attribute__((may_alias)) type; };
template <> struct Raw<8> { typedef unsigned long __attribute__((may_alias)) type; };
template <> struct Raw<16> {
    typedef unsigned type __attribute__((vector_size(16), may_alias));
};
}  // namespace cuemu

// In the trace build a copy must be ONE access, as it is in SASS: compilers copy member by member.
#ifdef CUEMU_TRACE
#define CUEMU_ONE_COPY(V)                                                            \
    V() = default;                                                                   \
    __attribute__((always_inline)) V(const V& o) {                                   \
        *(::cuemu::Raw<sizeof(V)>::type*)this = *(const ::cuemu::Raw<sizeof(V)>::type*)&o; \
    }                                                                                \
    __attribute__((always_inline)) V& operator=(const V& o) {                        \
        *(::cuemu::Raw<sizeof(V)>::type*)this = *(const ::cuemu::Raw<sizeof(V)>::type*)&o; \
        return *this;                                                                \
    }
#define CUEMU_MAKE2(V, T) \
    CUEMU_ONE_COPY(V)     \
    constexpr V(T x_, T y_) : x(x_), y(y_) {}
#define CUEMU_MAKE4(V, T) \
    CUEMU_ONE_COPY(V)     \
    constexpr V(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {}
#else
#define CUEMU_ONE_COPY(V)
#define CUEMU_MAKE2(V, T)
#define CUEMU_MAKE4(V, T)
#endif

#define CUEMU_VECTOR12(T, NAME, ALIGN2)                                   \
    struct NAME##1 { T x; };                                              \
    struct alignas(ALIGN2) NAME##2 { T x, y; CUEMU_MAKE2(NAME##2, T) };   \
    CUEMU_INLINE NAME##1 make_##NAME##1(T x) { return {x}; }              \
    CUEMU_INLINE NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }
#define CUEMU_VECTOR3(T, NAME)                                            \
    CUEMU_INLINE NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }
#define CUEMU_VECTOR4(T, NAME, ALIGN4, MAKE)                              \
    struct alignas(ALIGN4) NAME##4 { T x, y, z, w; MAKE(NAME##4, T) };    \
    CUEMU_INLINE NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define CUEMU_TWO_COPIES(V, T)  // 32 bytes: the hardware needs two accesses as well
#define CUEMU_VECTOR(T, NAME, ALIGN2, ALIGN4, MAKE) \
    CUEMU_VECTOR12(T, NAME, ALIGN2)                 \
    struct NAME##3 { T x, y, z; };                  \
    CUEMU_VECTOR3(T, NAME)                          \
    CUEMU_VECTOR4(T, NAME, ALIGN4, MAKE)

CUEMU_VECTOR(signed char, char, 2, 4, CUEMU_MAKE4)
CUEMU_VECTOR(unsigned char, uchar, 2, 4, CUEMU_MAKE4)
CUEMU_VECTOR(short, short, 4, 8, CUEMU_MAKE4)
CUEMU_VECTOR(unsigned short, ushort, 4, 8, CUEMU_MAKE4)
CUEMU_VECTOR(int, int, 8, 16, CUEMU_MAKE4)
CUEMU_VECTOR12(unsigned, uint, 8)  // uint3 is threadIdx's type and lives in abi.h
CUEMU_VECTOR3(unsigned, uint)
CUEMU_VECTOR4(unsigned, uint, 16, CUEMU_MAKE4)
CUEMU_VECTOR(long, long, 16, 16, CUEMU_TWO_COPIES)
CUEMU_VECTOR(unsigned long, ulong, 16, 16, CUEMU_TWO_COPIES)
CUEMU_VECTOR(long long, longlong, 16, 16, CUEMU_TWO_COPIES)
CUEMU_VECTOR(unsigned long long, ulonglong, 16, 16, CUEMU_TWO_COPIES)
CUEMU_VECTOR(float, float, 8, 16, CUEMU_MAKE4)
CUEMU_VECTOR(double, double, 16, 16, CUEMU_TWO_COPIES)
