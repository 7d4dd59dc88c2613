// What a compiled .cu file and the worker process agree on. Both sides include this file.
#pragma once
#include <stdint.h>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

// Where the running thread is. One per OS thread; the scheduler rewrites it at every switch.
struct CuemuState {
    uint3 thread_idx, block_idx, block_dim, grid_dim;
};
extern thread_local CuemuState cuemu_state __attribute__((tls_model("initial-exec")));

enum CuemuParamKind : uint8_t {
    CUEMU_POINTER, CUEMU_SIGNED, CUEMU_UNSIGNED, CUEMU_FLOAT, CUEMU_BOOL, CUEMU_OTHER, CUEMU_HALF,
    CUEMU_BFLOAT16
};
struct CuemuParam {
    uint32_t size;
    CuemuParamKind kind, pointee_kind;  // pointee_* describe T of a T*; CUEMU_OTHER when unknown
    uint8_t is_const;
    uint32_t pointee_size;
};
struct CuemuKernel {
    const char* name;
    void (*thread)(void** args);  // runs one thread
    void (*block)(void** args);   // runs a whole block, when nothing in the file can block
    const CuemuParam* params;
    uint32_t param_count;
    const void* symbol;
};

// A subscript of an array that a function declares for itself, by a place the compiler may name.
struct CuemuSubscript {
    const char* array;
    uint32_t line, column;
};

enum CuemuBarrier : int { CUEMU_SYNC, CUEMU_AND, CUEMU_OR, CUEMU_COUNT };
enum CuemuWarpOp : int {
    CUEMU_SYNCWARP, CUEMU_SHFL_IDX, CUEMU_SHFL_UP, CUEMU_SHFL_DOWN, CUEMU_SHFL_XOR, CUEMU_ALL,
    CUEMU_ANY, CUEMU_BALLOT, CUEMU_MATCH_ANY, CUEMU_MATCH_ALL, CUEMU_REDUCE_ADD,
    CUEMU_REDUCE_MIN_S, CUEMU_REDUCE_MAX_S, CUEMU_REDUCE_MIN_U, CUEMU_REDUCE_MAX_U,
    CUEMU_REDUCE_AND, CUEMU_REDUCE_OR, CUEMU_REDUCE_XOR, CUEMU_CALL, CUEMU_GATHER
};
// CUEMU_GATHER: which lanes wait at this very line when nothing else can go on.
// CUEMU_CALL: the last lane runs `function(lanes)` once; lanes[i] is what lane i passed as value.
typedef void (*CuemuWarpCall)(void* const* lanes);

// A barrier in memory: `expected` arrivals are a phase.
struct CuemuPhases {
    uint32_t expected, left, phase;
};

extern "C" {
// A module that refers to none of these three cannot block, and runs as a plain loop.
void cuemu_block_grid();  // waits for the whole grid
int cuemu_block_barrier(int kind, int predicate);
uint64_t cuemu_block_warp(int op, uint32_t mask, uint64_t value, uint32_t operand, int width);
// A copy to shared memory that nobody may rely on before the wait: of `size` bytes, the last `zeros`
// being 0. The wait makes all but the latest `groups` of those committed; with `all`, the others, too.
void cuemu_copy(void* to, const void* from, uint32_t size, uint32_t zeros);
void cuemu_copy_commit();
void cuemu_block_copy_wait(uint32_t groups, int all);
uint32_t cuemu_block_arrive(CuemuPhases* barrier, uint32_t count, int drops);  // the phase arrived in
void cuemu_block_wait(CuemuPhases* barrier, uint32_t phase);                    // until it is over
void cuemu_yield();
uint64_t cuemu_clock();
[[noreturn]] void cuemu_trap();
void cuemu_fence(int scope);  // 0 block, 1 device, 2 system
void cuemu_trace_atomic(void* address, int size, const void* site);
void cuemu_own_arrays(const char* file, const CuemuSubscript* first, uint32_t count);
void cuemu_trace_compared(void* address, int size, uint64_t expected);  // by the atomic that follows
}

#ifdef __clang__
#define CUEMU_SILENT __attribute__((no_sanitize("thread"), no_sanitize("coverage")))
#else
#define CUEMU_SILENT __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#endif
