// Barriers and warp-wide operations. The return address of each call names the learner's line.
#pragma once

#define CUEMU_FULL 0xffffffffu

CUEMU_INLINE void __syncthreads() { cuemu_block_barrier(CUEMU_SYNC, 0); }
CUEMU_INLINE int __syncthreads_and(int p) { return cuemu_block_barrier(CUEMU_AND, p != 0); }
CUEMU_INLINE int __syncthreads_or(int p) { return cuemu_block_barrier(CUEMU_OR, p != 0); }
CUEMU_INLINE int __syncthreads_count(int p) { return cuemu_block_barrier(CUEMU_COUNT, p != 0); }
CUEMU_INLINE void __syncwarp(unsigned mask = CUEMU_FULL) {
    cuemu_block_warp(CUEMU_SYNCWARP, mask, 0, 0, 32);
}

CUEMU_INLINE int __all_sync(unsigned mask, int p) {
    return (int)cuemu_block_warp(CUEMU_ALL, mask, p != 0, 0, 32);
}
CUEMU_INLINE int __any_sync(unsigned mask, int p) {
    return (int)cuemu_block_warp(CUEMU_ANY, mask, p != 0, 0, 32);
}
CUEMU_INLINE unsigned __ballot_sync(unsigned mask, int p) {
    return (unsigned)cuemu_block_warp(CUEMU_BALLOT, mask, p != 0, 0, 32);
}

namespace cuemu {
template <class T> CUEMU_INLINE uint64_t widen(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t wide = 0;
    __builtin_memcpy(&wide, &value, sizeof(T));
    return wide;
}
template <class T> CUEMU_INLINE T narrow(uint64_t wide) {
    T value;
    __builtin_memcpy(&value, &wide, sizeof(T));
    return value;
}
}  // namespace cuemu

#define CUEMU_SHUFFLE(NAME, OP, ARGUMENT)                                                     \
    template <class T>                                                                        \
    CUEMU_INLINE T NAME(unsigned mask, T value, ARGUMENT operand, int width = 32) {           \
        if constexpr (sizeof(T) > 8) { /* word by word */                                     \
            uint64_t words[(sizeof(T) + 7) / 8] = {};                                         \
            __builtin_memcpy(words, &value, sizeof(T));                                       \
            for (uint64_t& word : words) {                                                    \
                word = cuemu_block_warp(OP, mask, word, (uint32_t)operand, width);            \
            }                                                                                 \
            __builtin_memcpy(&value, words, sizeof(T));                                       \
            return value;                                                                     \
        } else                                                                                \
        return cuemu::narrow<T>(                                                              \
            cuemu_block_warp(OP, mask, cuemu::widen(value), (uint32_t)operand, width));       \
    }
CUEMU_SHUFFLE(__shfl_sync, CUEMU_SHFL_IDX, int)
CUEMU_SHUFFLE(__shfl_up_sync, CUEMU_SHFL_UP, unsigned)
CUEMU_SHUFFLE(__shfl_down_sync, CUEMU_SHFL_DOWN, unsigned)
CUEMU_SHUFFLE(__shfl_xor_sync, CUEMU_SHFL_XOR, int)

template <class T> CUEMU_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    return (unsigned)cuemu_block_warp(CUEMU_MATCH_ANY, mask, cuemu::widen(value), 0, 32);
}
template <class T> CUEMU_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all) {
    unsigned same = (unsigned)cuemu_block_warp(CUEMU_MATCH_ALL, mask, cuemu::widen(value), 0, 32);
    *all = same != 0;
    return same;
}

#define CUEMU_REDUCE(NAME, T, OP)                                                             \
    CUEMU_INLINE T NAME(unsigned mask, T value) {                                             \
        return (T)cuemu_block_warp(OP, mask, (uint64_t)(uint32_t)value, 0, 32);               \
    }
CUEMU_REDUCE(__reduce_add_sync, int, CUEMU_REDUCE_ADD)
CUEMU_REDUCE(__reduce_add_sync, unsigned, CUEMU_REDUCE_ADD)
CUEMU_REDUCE(__reduce_min_sync, int, CUEMU_REDUCE_MIN_S)
CUEMU_REDUCE(__reduce_min_sync, unsigned, CUEMU_REDUCE_MIN_U)
CUEMU_REDUCE(__reduce_max_sync, int, CUEMU_REDUCE_MAX_S)
CUEMU_REDUCE(__reduce_max_sync, unsigned, CUEMU_REDUCE_MAX_U)
CUEMU_REDUCE(__reduce_and_sync, unsigned, CUEMU_REDUCE_AND)
CUEMU_REDUCE(__reduce_or_sync, unsigned, CUEMU_REDUCE_OR)
CUEMU_REDUCE(__reduce_xor_sync, unsigned, CUEMU_REDUCE_XOR)

CUEMU_INLINE void __threadfence_block() { cuemu_fence(0); }
CUEMU_INLINE void __threadfence() { cuemu_fence(1); }
CUEMU_INLINE void __threadfence_system() { cuemu_fence(2); }
CUEMU_INLINE void __nanosleep(unsigned) { cuemu_yield(); }
[[noreturn]] CUEMU_INLINE void __trap() { cuemu_trap(); }
CUEMU_INLINE long long clock64() { return (long long)cuemu_clock(); }
extern "C" long clock() noexcept;  // <time.h> declares the same; the worker has it count steps
