// Kernels as a program names them, and launches as labkit is told of them.
#pragma once
#include "../../emulator/include/cuemu/abi.h"
#include "ask.h"

struct CuemuThunk {  // of cuemu/host/launch.h
    void (*thread)(void** args);
    void (*block)(void** args);
    const CuemuParam* params;
    uint32_t param_count;
};

namespace cuemu {

struct Config {  // of cuemu/host/launch.h
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

// Kernels and their thunks are named by where the host's build has them.
inline int64_t place(const void* symbol) { return static_cast<int64_t>(offset_of(symbol)); }

// What `Wanted.read` in labkit/cuda/programs/calls_launch.py reads.
std::string launch_body(const Config& config, const Argument* arguments, unsigned count);

// Of a kernel that a program has as a void*; null: it is none.
const CuemuThunk* thunk_of(const void* kernel);
std::string launch_body(const Config& config, const CuemuThunk& thunk, void** arguments);

}  // namespace cuemu
