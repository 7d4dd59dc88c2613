// kernel<<<grid, block, shared, stream>>>(arguments), which labkit/cuda/programs/launches.py has
// turned into cuemu::launch(kernel, cuemu::config(grid, block, shared, stream), arguments).
#pragma once
#include "../describe.h"
#include "api.h"

// What the device builds are asked for, by the symbols of both.
struct CuemuThunk {
    void (*thread)(void** args);
    void (*block)(void** args);
    const CuemuParam* params;
    uint32_t param_count;
};

namespace cuemu {
template <class... A> struct Thunk {
    template <int... I> CUEMU_SILENT static void call(void** a, Indices<I...>) {
        // Behind its arguments stands the kernel itself.
        reinterpret_cast<void (*)(A...)>(a[sizeof...(A)])(*static_cast<typename Bare<A>::type*>(a[I])...);
    }
    CUEMU_SILENT static void thread(void** a) { call(a, typename Count<sizeof...(A)>::type()); }
    CUEMU_SILENT static void block(void** a) {
        const uint3 extent = blockDim;
        for (unsigned z = 0; z < extent.z; ++z) {
            for (unsigned y = 0; y < extent.y; ++y) {
                for (unsigned x = 0; x < extent.x; ++x) {
                    threadIdx = uint3{x, y, z};
                    call(a, typename Count<sizeof...(A)>::type());
                }
            }
        }
    }
    static constexpr CuemuParam params[sizeof...(A) + 1] = {Describe<A>::param..., {}};
    __attribute__((used)) static constexpr CuemuThunk thunk{thread, block, params, sizeof...(A)};
};
template <class... A> constexpr CuemuParam Thunk<A...>::params[sizeof...(A) + 1];
template <class... A> constexpr CuemuThunk Thunk<A...>::thunk;

struct Config {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
    const char *name, *file;
    int line, cooperative;
};
struct Argument {
    const void* value;
    size_t size;
};
template <class T> struct Identity { using type = T; };
}  // namespace cuemu

extern "C" cudaError_t cuemu_launch(const void* kernel, const void* thunk, const cuemu::Config* config,
                                    const cuemu::Argument* arguments, unsigned count);
extern "C" void cuemu_unlaunched();
extern "C" cudaError_t cuemu_occupancy(int* blocks, const void* kernel, const void* thunk, int block_size, size_t shared_bytes);
extern "C" cudaError_t cuemu_attributes(cudaFuncAttributes* attributes, const void* kernel, const void* thunk);
extern "C" cudaError_t cuemu_set_dynamic_shared(const void* kernel, const void* thunk, int size);

namespace cuemu {
inline Config named(const char* name, dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = 0,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {grid, block, shared_bytes, stream, name, file, line, 0};
}
template <class... A>
__attribute__((always_inline)) inline void launch(void (*kernel)(A...), const Config& config,
                                                  typename Identity<A>::type... arguments) {
    const Argument given[] = {{&arguments, sizeof(arguments)}..., {nullptr, 0}};
    cuemu_launch((const void*)kernel, &Thunk<A...>::thunk, &config, given, sizeof...(A));
}
// Of a template whose arguments are deduced, or that has defaults: `lambda` calls it.
template <class F, class... B>
__attribute__((always_inline)) inline void launch_deduced(F lambda, const Config& config, B... arguments) {
    void (*kernel)(B...) = lambda;
    launch(kernel, config, arguments...);
}
template <class... A> constexpr const void* thunk_of(void (*)(A...)) { return &Thunk<A...>::thunk; }
}  // namespace cuemu

// `(void*)kernel`, which hides the parameters: labkit/cuda/programs/launches.py writes
// `cuemu::Known() ->* kernel`, which remembers them.
extern "C" void* cuemu_known(const void* kernel, const void* thunk);
extern "C" cudaError_t cuemu_launch_known(const void* kernel, const cuemu::Config* config, void** arguments);
extern "C" const void* cuemu_thunk(const void* kernel);
namespace cuemu {
struct Known {};
template <class... A> inline void* operator->*(Known, void (*kernel)(A...)) {
#ifdef CUEMU_HOST
    return cuemu_known((const void*)kernel, thunk_of(kernel));
#else
    return (void*)kernel;
#endif
}
template <class T> inline void* operator->*(Known, T value) { return (void*)value; }  // another thing of that name
}  // namespace cuemu

#define CUEMU_OF_KERNEL template <class... A> __attribute__((always_inline)) inline cudaError_t
CUEMU_OF_KERNEL cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(A...)) {
    return cuemu_attributes(attributes, (const void*)kernel, cuemu::thunk_of(kernel));
}
CUEMU_OF_KERNEL cudaFuncSetAttribute(void (*kernel)(A...), cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    return cuemu_set_dynamic_shared((const void*)kernel, cuemu::thunk_of(kernel), value);
}
CUEMU_OF_KERNEL cudaFuncSetCacheConfig(void (*)(A...), cudaFuncCache) { return cudaSuccess; }
CUEMU_OF_KERNEL cudaFuncSetSharedMemConfig(void (*)(A...), cudaSharedMemConfig) { return cudaSuccess; }
CUEMU_OF_KERNEL cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(A...), int block_size,
                                                              size_t shared_bytes) {
    return cuemu_occupancy(blocks, (const void*)kernel, cuemu::thunk_of(kernel), block_size, shared_bytes);
}
CUEMU_OF_KERNEL cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void (*kernel)(A...), int block_size,
                                                                       size_t shared_bytes, unsigned) {
    return cuemu_occupancy(blocks, (const void*)kernel, cuemu::thunk_of(kernel), block_size, shared_bytes);
}
extern "C" cudaError_t cuemu_best_block(int* grid, int* block, const void* kernel, const void* thunk, size_t shared_bytes, int limit);
CUEMU_OF_KERNEL cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, void (*kernel)(A...), size_t shared_bytes = 0,
                                                   int limit = 0) {
    return cuemu_best_block(grid, block, (const void*)kernel, cuemu::thunk_of(kernel), shared_bytes, limit);
}
// The same of a kernel that has become a void*.
#define CUEMU_OF_KNOWN __attribute__((always_inline)) inline cudaError_t
CUEMU_OF_KNOWN cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
    return cuemu_attributes(attributes, kernel, cuemu_thunk(kernel));
}
CUEMU_OF_KNOWN cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    return cuemu_set_dynamic_shared(kernel, cuemu_thunk(kernel), value);
}
CUEMU_OF_KNOWN cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
CUEMU_OF_KNOWN cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_size, size_t shared_bytes) {
    return cuemu_occupancy(blocks, kernel, cuemu_thunk(kernel), block_size, shared_bytes);
}
CUEMU_OF_KNOWN cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0,
                                cudaStream_t stream = 0, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const cuemu::Config config = {grid, block, shared_bytes, stream, "", file, line, 0};
    return cuemu_launch_known(kernel, &config, arguments);
}
CUEMU_OF_KNOWN cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                           size_t shared_bytes = 0, cudaStream_t stream = 0,
                                           const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const cuemu::Config config = {grid, block, shared_bytes, stream, "", file, line, 1};
    return cuemu_launch_known(kernel, &config, arguments);
}
#undef CUEMU_OF_KNOWN
// cudaLaunchKernel and its cooperative sister: arguments by address.
template <class... A>
inline cudaError_t cuemu_launch_by_address(void (*kernel)(A...), const cuemu::Config& config, void** arguments) {
    static constexpr size_t sizes[] = {sizeof(A)..., 0};
    cuemu::Argument given[sizeof...(A) + 1];
    for (unsigned i = 0; i < sizeof...(A); ++i) given[i] = {arguments[i], sizes[i]};
    return cuemu_launch((const void*)kernel, cuemu::thunk_of(kernel), &config, given, sizeof...(A));
}
CUEMU_OF_KERNEL cudaLaunchKernel(void (*kernel)(A...), dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0,
                                 cudaStream_t stream = 0, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return cuemu_launch_by_address(kernel, {grid, block, shared_bytes, stream, "", file, line, 0}, arguments);
}
CUEMU_OF_KERNEL cudaLaunchCooperativeKernel(void (*kernel)(A...), dim3 grid, dim3 block, void** arguments,
                                            size_t shared_bytes = 0, cudaStream_t stream = 0,
                                            const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return cuemu_launch_by_address(kernel, {grid, block, shared_bytes, stream, "", file, line, 1}, arguments);
}
