// What labkit/cuda/ptx makes of inline PTX: registers are bits, an instruction says what they mean.
#pragma once
#include "ptx_matrix.h"

namespace cuemu {
namespace ptx {

// The value that an `asm` statement's input gives its register.
template <class Register, class T> CUEMU_INLINE Register in(T value) {
    if constexpr (Number<T>::kind == CUEMU_OTHER && sizeof(Register) == sizeof(T)) {
        return bits<Register>(value);
    } else {
        return (Register)value;
    }
}

CUEMU_INLINE unsigned thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
CUEMU_INLINE unsigned lane() { return thread() % 32; }
CUEMU_INLINE unsigned warp() { return thread() / 32; }
CUEMU_INLINE unsigned warps() { return (blockDim.x * blockDim.y * blockDim.z + 31) / 32; }
CUEMU_INLINE unsigned multiprocessor() { return (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) % 8; }

// Several registers as one, the first in its lowest bits; and back.
template <int Bytes> struct Unsigned;
template <> struct Unsigned<2> { typedef unsigned short type; };
template <> struct Unsigned<4> { typedef unsigned type; };
template <> struct Unsigned<8> { typedef unsigned long long type; };
template <> struct Unsigned<1> { typedef unsigned char type; };
template <class T> CUEMU_INLINE auto raw(T value) { return bits<typename Unsigned<sizeof(T)>::type>(value); }
template <class T, class... More> CUEMU_INLINE auto pack(T first, More... more) {
    using Whole = typename Unsigned<sizeof(T) * (1 + sizeof...(More))>::type;
    Whole whole = raw(first);
    int at = 0;
    ((whole |= (Whole)((Whole)raw(more) << (at += 8 * (int)sizeof(T)))), ...);
    return whole;
}
template <class Whole, class... Part> CUEMU_INLINE void unpack(Whole whole, Part&... parts) {
    using Piece = typename Unsigned<sizeof(Whole) / sizeof...(Part)>::type;
    auto rest = raw(whole);
    ((put(parts, (Piece)rest), rest >>= 8 * sizeof(Piece) % (8 * sizeof(rest))), ...);
}

// Arithmetic that C++ leaves open, or has no name for.
template <class T> CUEMU_INLINE T shifted_left(T value, unsigned by) { return by >= 8 * sizeof(T) ? T(0) : (T)(value << by); }
template <class T> CUEMU_INLINE T shifted_right(T value, unsigned by) {
    return (T)(value >> (by >= 8 * sizeof(T) ? 8 * sizeof(T) - 1 : by)) >> (by >= 8 * sizeof(T));
}
template <class T> CUEMU_INLINE int leading_zeros(T value) { return sizeof(T) == 8 ? __clzll((long long)value) : __clz((int)value); }
CUEMU_INLINE unsigned reversed(unsigned value) { return __brev(value); }
CUEMU_INLINE unsigned logic(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (unsigned row = 0; row < 8; ++row) {
        if (table >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    }
    return result;
}
CUEMU_INLINE unsigned ones(unsigned count) { return count >= 32 ? ~0u : (1u << count) - 1; }
CUEMU_INLINE unsigned field(unsigned value, unsigned at, unsigned count) {
    return (at & 255) > 31 ? 0 : value >> (at & 255) & ones(count & 255);
}
CUEMU_INLINE int field(int value, int at, int count) {
    const unsigned low = field((unsigned)value, (unsigned)at, (unsigned)count), sign = count & 255;
    return sign && sign < 32 && low >> (sign - 1) & 1 ? (int)(low | ~ones(sign)) : (int)low;
}
CUEMU_INLINE unsigned inserted(unsigned value, unsigned into, unsigned at, unsigned count) {
    const unsigned mask = (at & 255) > 31 ? 0 : ones(count & 255) << (at & 255);
    return (into & ~mask) | ((at & 255) > 31 ? 0 : value << (at & 255) & mask);
}
CUEMU_INLINE unsigned distance(unsigned a, unsigned b, unsigned sum) { return sum + (a < b ? b - a : a - b); }
CUEMU_INLINE unsigned distance(int a, int b, int sum) { return __sad(a, b, (unsigned)sum); }
template <class T> CUEMU_INLINE T rounded_rni(T x) { return rint(x); }
template <class T> CUEMU_INLINE T rounded_rzi(T x) { return trunc(x); }
template <class T> CUEMU_INLINE T rounded_rmi(T x) { return floor(x); }
template <class T> CUEMU_INLINE T rounded_rpi(T x) { return ceil(x); }
template <class To, class From> CUEMU_INLINE To clamped(From x) {  // where C++ leaves it undefined
    constexpr int width = 8 * sizeof(To);
    const bool is_signed = (To)-1 < (To)0;
    const To most = (To)(~0ull >> (64 - width + is_signed)), least = is_signed ? (To)(1ull << (width - 1)) : To(0);
    return x != x ? To(0) : x >= (From)most ? most : x <= (From)least ? least : (To)x;
}

// Numbers of 16 and 19 bits.
CUEMU_INLINE unsigned short to_f16(float x) { return Half::round(x); }
CUEMU_INLINE unsigned short to_bf16(float x) { return Bfloat16::round(x); }
CUEMU_INLINE float from_f16(unsigned short x) { return Half::widen(x); }
CUEMU_INLINE float from_bf16(unsigned short x) { return Bfloat16::widen(x); }
CUEMU_INLINE unsigned two_halfs(float high, float low) { return (unsigned)Half::round(high) << 16 | Half::round(low); }
CUEMU_INLINE unsigned two_bfloat16s(float high, float low) {
    return (unsigned)Bfloat16::round(high) << 16 | Bfloat16::round(low);
}
CUEMU_INLINE unsigned to_tf32(float x) { return (bits<unsigned>(x) + 0x1000u) & 0xffffe000u; }  // ties away from zero

// Memory: one access of the instruction's width.
CUEMU_INLINE char* generic(unsigned long long address) { return (char*)address; }
CUEMU_INLINE char* in_shared(unsigned long long address) { return (char*)__cvta_shared_to_generic(address); }
template <class T> CUEMU_INLINE unsigned long long shared_address(T address) {
    return __cvta_generic_to_shared((const void*)address);
}
template <class T> CUEMU_INLINE T load(const char* from) { return *(const T*)from; }
template <class T> CUEMU_INLINE T volatile_load(const char* from) { return *(const volatile T*)from; }
template <class T, class V> CUEMU_INLINE void store(char* to, V value) { *(T*)to = as<T>(value); }
template <class T, class V> CUEMU_INLINE void volatile_store(char* to, V value) { *(volatile T*)to = as<T>(value); }
template <class T, int N> struct Several { T x[N]; };
template <class T, int N, class... Place> CUEMU_INLINE void load_vector(const char* from, Place&... places) {
    const auto all = bits<Several<T, N>>(*(const typename Raw<sizeof(T) * N>::type*)from);
    int i = 0;
    (put(places, all.x[i++]), ...);
}
template <class T, int N, class... V> CUEMU_INLINE void store_vector(char* to, V... values) {
    using Whole = typename Raw<sizeof(T) * N>::type;
    *(Whole*)to = __builtin_bit_cast(Whole, (Several<T, N>{{as<T>(values)...}}));
}
// Of a flag that other threads look at: an atomic, and with a fence it orders what stands before or behind.
template <class T, bool Acquire> CUEMU_INLINE T load_atomic(const char* from) {
    const T value = fetch_or((T*)from, T(0));
    if (Acquire) cuemu_fence(1);
    return value;
}
template <class T, bool Release, class V> CUEMU_INLINE void store_atomic(char* to, V value) {
    if (Release) cuemu_fence(1);
    exchange((T*)to, as<T>(value));
}

}  // namespace ptx
}  // namespace cuemu
