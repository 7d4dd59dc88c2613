// The few <type_traits> the shims need, without the header.
#pragma once
namespace cuemu {
template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };
template <class T> struct Bare { using type = T; static constexpr bool is_const = false; };
template <class T> struct Bare<const T> { using type = T; static constexpr bool is_const = true; };
template <bool, class T = int> struct EnableIf {};
template <class T> struct EnableIf<true, T> { using type = T; };

template <class T> struct Number {
    static constexpr CuemuParamKind kind = CUEMU_OTHER;
};
#define CUEMU_NUMBER(T, K) \
    template <> struct Number<T> { static constexpr CuemuParamKind kind = K; };
CUEMU_NUMBER(bool, CUEMU_BOOL)
CUEMU_NUMBER(signed char, CUEMU_SIGNED)
CUEMU_NUMBER(short, CUEMU_SIGNED)
CUEMU_NUMBER(int, CUEMU_SIGNED)
CUEMU_NUMBER(long, CUEMU_SIGNED)
CUEMU_NUMBER(long long, CUEMU_SIGNED)
CUEMU_NUMBER(char, CUEMU_SIGNED)
CUEMU_NUMBER(unsigned char, CUEMU_UNSIGNED)
CUEMU_NUMBER(unsigned short, CUEMU_UNSIGNED)
CUEMU_NUMBER(unsigned, CUEMU_UNSIGNED)
CUEMU_NUMBER(unsigned long, CUEMU_UNSIGNED)
CUEMU_NUMBER(unsigned long long, CUEMU_UNSIGNED)
CUEMU_NUMBER(float, CUEMU_FLOAT)
CUEMU_NUMBER(double, CUEMU_FLOAT)
template <class T> constexpr bool is_number = Number<T>::kind != CUEMU_OTHER;

template <class To, class From> CUEMU_INLINE To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    return __builtin_bit_cast(To, from);
}
}  // namespace cuemu
