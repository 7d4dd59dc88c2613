// Errors as a program asks for them, and what host code must not call; however labkit is asked.
#include "../../emulator/include/cuemu/abi.h"

#include <stdio.h>
#include <string.h>

#include "ask.h"

namespace cuemu {

static thread_local cudaError_t last_error = cudaSuccess;

cudaError_t noted(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
    return error;
}

cudaError_t tell(const char* name, const void* site, std::initializer_list<int64_t> numbers, const void* data, size_t size) {
    return noted(ask(name, site, numbers, data, size).error);
}

}  // namespace cuemu

extern "C" {

cudaError_t cudaGetLastError() {
    const cudaError_t error = cuemu::last_error;
    cuemu::last_error = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError() { return cuemu::last_error; }

static const struct { cudaError_t error; const char *name, *text; } cuemu_errors[] = {
#define CUEMU_ERROR(NAME, NUMBER, TEXT) {NAME, #NAME, TEXT},
#include "../../emulator/include/cuemu/host/errors.inc"
#undef CUEMU_ERROR
};
const char* cudaGetErrorName(cudaError_t error) {
    for (const auto& one : cuemu_errors) {
        if (one.error == error) return one.name;
    }
    return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
    for (const auto& one : cuemu_errors) {
        if (one.error == error) return one.text;
    }
    return "unrecognized error code";
}

// What a kernel's body begins with in the host's build (labkit/cuda/programs/launches.py).
void cuemu_unlaunched() { cuemu::ask("unlaunched", CUEMU_SITE, {}); }

// What only kernels may call; here because the host's build compiles their text, too.
#define CUEMU_DEVICE_ONLY(RESULT, NAME, PARAMETERS)                                              \
    RESULT NAME PARAMETERS {                                                                     \
        cuemu::ask("device_only", CUEMU_SITE, {});                                               \
        fprintf(stderr, "labkit: host code calls a device-only function\n");                     \
        abort();                                                                                 \
    }
CUEMU_DEVICE_ONLY(int, cuemu_block_barrier, (int, int))
CUEMU_DEVICE_ONLY(uint64_t, cuemu_block_warp, (int, uint32_t, uint64_t, uint32_t, int))
CUEMU_DEVICE_ONLY(void, cuemu_copy, (void*, const void*, uint32_t, uint32_t))
CUEMU_DEVICE_ONLY(void, cuemu_copy_commit, ())
CUEMU_DEVICE_ONLY(void, cuemu_block_copy_wait, (uint32_t, int))
CUEMU_DEVICE_ONLY(uint32_t, cuemu_block_arrive, (CuemuPhases*, uint32_t, int))
CUEMU_DEVICE_ONLY(void, cuemu_block_wait, (CuemuPhases*, uint32_t))
CUEMU_DEVICE_ONLY(void*, cuemu_shared_base, ())
CUEMU_DEVICE_ONLY(void, cuemu_yield, ())
CUEMU_DEVICE_ONLY(uint64_t, cuemu_clock, ())
CUEMU_DEVICE_ONLY([[noreturn]] void, cuemu_trap, ())
CUEMU_DEVICE_ONLY(void, cuemu_fence, (int))
CUEMU_DEVICE_ONLY(void, cuemu_block_grid, ())

}

thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;
