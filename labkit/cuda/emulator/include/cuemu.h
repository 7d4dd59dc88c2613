// Forced in front of every .cu file: what nvcc and NVRTC know without an #include.
#pragma once
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS  // C's <math.h>: <cmath> alone doubles the compile time
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#define _GLIBCXX_MATH_H 1    // their overloads stay in std: cuemu/math.h has CUDA's
#define _GLIBCXX_STDLIB_H 1

#include "cuemu/abi.h"

extern "C" void* malloc(size_t) noexcept;
extern "C" void free(void*) noexcept;

#ifdef CUEMU_TRACE  // accesses, too: the worker watches them
extern "C" {
void* memcpy(void*, const void*, size_t) noexcept __asm__("cuemu_trace_memcpy");
void* memmove(void*, const void*, size_t) noexcept __asm__("cuemu_trace_memmove");
void* memset(void*, int, size_t) noexcept __asm__("cuemu_trace_memset");
}
#endif

#ifdef CUEMU_PROGRAM  // what nvcc's own header brings in
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>
#endif

#define LABKIT_EMULATOR 1
#define __CUDACC__ 1
#ifdef CUEMU_HOST  // the host's half of a whole program
#define CUEMU_QUIET inline
#define __global__ __attribute__((noinline))
#else
#define __CUDA_ARCH__ 800

#ifdef CUEMU_TRACE
#ifdef __clang__
#define CUEMU_QUIET inline __attribute__((noinline, no_sanitize("thread"), no_sanitize("coverage")))
#else
#define CUEMU_QUIET inline __attribute__((noinline, no_sanitize("thread"), no_sanitize_coverage))
#endif
#define __global__ __attribute__((noinline))
#else
#define CUEMU_QUIET inline
#define __global__
#endif
#endif
#define __device__
#define __host__
#define __constant__
#define __shared__ __attribute__((aligned(16))) thread_local  // as a device lays them out
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...) cuemu_unsupported_thread_block_clusters
#define __managed__ cuemu_unsupported_managed_memory
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define CUEMU_INLINE static inline __attribute__((always_inline, unused))
#define CUEMU_MEMBER_FUNCTION inline __attribute__((always_inline))

#ifdef CUEMU_PROGRAM  // host code may have variables and members of these names
extern thread_local uint3 threadIdx __attribute__((tls_model("initial-exec")));
extern thread_local uint3 blockIdx __attribute__((tls_model("initial-exec")));
extern thread_local uint3 blockDim __attribute__((tls_model("initial-exec")));
extern thread_local uint3 gridDim __attribute__((tls_model("initial-exec")));
static constexpr int warpSize = 32;
#else
#define threadIdx (static_cast<const uint3&>(::cuemu_state.thread_idx))
#define blockIdx (static_cast<const uint3&>(::cuemu_state.block_idx))
#define blockDim (static_cast<const uint3&>(::cuemu_state.block_dim))
#define gridDim (static_cast<const uint3&>(::cuemu_state.grid_dim))
#define warpSize 32
#endif

#include "cuemu/types.h"

#ifdef CUEMU_TRACE
namespace cuemu {
// A result on its way to memory: see stored_results in labkit/cuda/source.py.
template <class T> __attribute__((always_inline)) inline T&& stored(T&& result) { return static_cast<T&&>(result); }
}  // namespace cuemu
#endif
#include "cuemu/vector_types.h"
#include "cuemu/warp.h"
#include "cuemu/atomics.h"
#include "cuemu/math.h"
#include "cuemu/shared_window.h"
#include "cuemu/unsupported.h"
#ifdef CUEMU_PROGRAM
#include "cuemu/host/launch.h"
#include "cuemu/host/pools.h"
#include "cuemu/host/textures.h"
#endif
