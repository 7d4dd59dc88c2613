// A program's end of the wire: every call of the runtime API is a question to labkit.
#pragma once
#include <stdint.h>
#include <stdlib.h>

#include <initializer_list>
#include <string>

#include "../../emulator/include/cuemu/host/types.h"

namespace cuemu {

struct Answer {
    cudaError_t error;
    int64_t values[4];
    std::string data;
};

// labkit's answer to the call of that name. What kernels printed meanwhile stands on standard
// output; host functions whose turn came have been called. `site`: a return address in the program.
Answer ask(const char* name, const void* site, std::initializer_list<int64_t> numbers, const void* data = nullptr,
           size_t size = 0);
// The same, for calls that give nothing back: the error, which cudaGetLastError will name.
cudaError_t tell(const char* name, const void* site, std::initializer_list<int64_t> numbers, const void* data = nullptr,
                 size_t size = 0);
cudaError_t noted(cudaError_t error);
// Part of a graph: the copy happens whenever the graph comes to it.
cudaError_t copy_later(const void* site, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                       size_t height, cudaStream_t stream);
void expect_calls();  // host functions may be called from now on

char* window(const void* device);       // where this process reaches device memory; null: no device address
uint64_t offset_of(const void* place);  // in the program's file
template <class T> int64_t number(T* pointer) { return reinterpret_cast<int64_t>(pointer); }

}  // namespace cuemu

#define CUEMU_SITE __builtin_return_address(0)
