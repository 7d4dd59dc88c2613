// Atomics. In the trace build each one is reported first, with the caller's line, and its own
// machine access stays silent.
#pragma once

namespace cuemu {
#ifdef CUEMU_TRACE
#define CUEMU_ATOMIC_TOLD(p) cuemu_trace_atomic((void*)(p), sizeof(*(p)), __builtin_return_address(0))
#define CUEMU_COMPARED_TOLD(p, expected) cuemu_trace_compared((void*)(p), sizeof(*(p)), (expected))
#else
#define CUEMU_ATOMIC_TOLD(p) ((void)0)
#define CUEMU_COMPARED_TOLD(p, expected) ((void)0)
#endif

template <class T, class F> CUEMU_QUIET T atomic_update(T* address, F next) {
    CUEMU_ATOMIC_TOLD(address);
    using Raw = typename cuemu::Raw<sizeof(T)>::type;
    Raw seen = __atomic_load_n((Raw*)address, __ATOMIC_RELAXED), wanted;
    do {
        T value, result;
        __builtin_memcpy(&value, &seen, sizeof(T));
        result = next(value);
        __builtin_memcpy(&wanted, &result, sizeof(T));
    } while (!__atomic_compare_exchange_n((Raw*)address, &seen, wanted, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    T old;
    __builtin_memcpy(&old, &seen, sizeof(T));
    return old;
}
template <class T> struct Plus {
    T operand;
    CUEMU_QUIET T operator()(T v) const { return v + operand; }
};
template <class T> struct Lower {
    T operand;
    CUEMU_QUIET T operator()(T v) const { return operand < v ? operand : v; }
};
template <class T> struct Higher {
    T operand;
    CUEMU_QUIET T operator()(T v) const { return v < operand ? operand : v; }
};
template <class T> struct Replace {
    T operand;
    CUEMU_QUIET T operator()(T) const { return operand; }
};
template <class T> struct WrapUp {
    T operand;
    CUEMU_QUIET T operator()(T v) const { return v >= operand ? 0 : v + 1; }
};
template <class T> struct WrapDown {
    T operand;
    CUEMU_QUIET T operator()(T v) const { return v == 0 || v > operand ? operand : v - 1; }
};
#define CUEMU_FETCH(NAME, BUILTIN)                                    \
    template <class T> CUEMU_QUIET T NAME(T* address, T value) {      \
        CUEMU_ATOMIC_TOLD(address);                                   \
        return BUILTIN(address, value, __ATOMIC_RELAXED);             \
    }
CUEMU_FETCH(fetch_add, __atomic_fetch_add)
CUEMU_FETCH(fetch_and, __atomic_fetch_and)
CUEMU_FETCH(fetch_or, __atomic_fetch_or)
CUEMU_FETCH(fetch_xor, __atomic_fetch_xor)
CUEMU_FETCH(exchange, __atomic_exchange_n)
template <class T> CUEMU_QUIET T compare_swap(T* address, T expected, T wanted) {
    CUEMU_COMPARED_TOLD(address, (typename cuemu::Raw<sizeof(T)>::type)expected);
    CUEMU_ATOMIC_TOLD(address);
    __atomic_compare_exchange_n(address, &expected, wanted, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return expected;
}
}  // namespace cuemu

#define CUEMU_ATOMIC(NAME, T, EXPRESSION)                                                       \
    CUEMU_INLINE T NAME(T* address, T value) { return EXPRESSION; }                             \
    CUEMU_INLINE T NAME##_block(T* address, T value) { return EXPRESSION; }                     \
    CUEMU_INLINE T NAME##_system(T* address, T value) { return EXPRESSION; }
#define CUEMU_ATOMIC_CAS(NAME, T)                                                               \
    CUEMU_INLINE T NAME(T* address, T expected, T wanted) {                                     \
        return cuemu::compare_swap(address, expected, wanted);                                  \
    }
#define CUEMU_ATOMIC_INTEGER(T)                                                                 \
    CUEMU_ATOMIC(atomicAdd, T, cuemu::fetch_add(address, value))                                \
    CUEMU_ATOMIC(atomicSub, T, cuemu::fetch_add(address, (T)(0 - value)))                       \
    CUEMU_ATOMIC(atomicExch, T, cuemu::exchange(address, value))                                \
    CUEMU_ATOMIC(atomicMin, T, cuemu::atomic_update(address, cuemu::Lower<T>{value}))           \
    CUEMU_ATOMIC(atomicMax, T, cuemu::atomic_update(address, cuemu::Higher<T>{value}))          \
    CUEMU_ATOMIC(atomicAnd, T, cuemu::fetch_and(address, value))                                \
    CUEMU_ATOMIC(atomicOr, T, cuemu::fetch_or(address, value))                                  \
    CUEMU_ATOMIC(atomicXor, T, cuemu::fetch_xor(address, value))                                \
    CUEMU_ATOMIC_CAS(atomicCAS, T)                                                              \
    CUEMU_ATOMIC_CAS(atomicCAS_block, T)                                                        \
    CUEMU_ATOMIC_CAS(atomicCAS_system, T)
CUEMU_ATOMIC_INTEGER(int)
CUEMU_ATOMIC_INTEGER(unsigned)
CUEMU_ATOMIC_INTEGER(unsigned long long)
CUEMU_ATOMIC(atomicMin, long long, cuemu::atomic_update(address, cuemu::Lower<long long>{value}))
CUEMU_ATOMIC(atomicMax, long long, cuemu::atomic_update(address, cuemu::Higher<long long>{value}))
CUEMU_ATOMIC(atomicAdd, float, cuemu::atomic_update(address, cuemu::Plus<float>{value}))
CUEMU_ATOMIC(atomicAdd, double, cuemu::atomic_update(address, cuemu::Plus<double>{value}))
CUEMU_ATOMIC(atomicExch, float, cuemu::atomic_update(address, cuemu::Replace<float>{value}))
CUEMU_ATOMIC(atomicInc, unsigned, cuemu::atomic_update(address, cuemu::WrapUp<unsigned>{value}))
CUEMU_ATOMIC(atomicDec, unsigned, cuemu::atomic_update(address, cuemu::WrapDown<unsigned>{value}))
CUEMU_INLINE unsigned short atomicCAS(unsigned short* address, unsigned short expected,
                                      unsigned short wanted) {
    return cuemu::compare_swap(address, expected, wanted);
}
