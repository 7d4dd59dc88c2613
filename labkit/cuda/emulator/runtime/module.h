// A loaded .cu: its kernels, and where each named variable of it lives.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "../include/cuemu/abi.h"

namespace cuemu {

struct Symbol {
    std::string name, owner;  // `owner` is the function a local variable belongs to, or empty
    int64_t offset;           // shared: from this thread's anchor; others: from the module's base
    size_t size;
    bool writable = false;
    std::string linked = {};  // its mangled name; of a local one, behind its file's and a colon
};

struct Module {
    void* handle = nullptr;
    char *base = nullptr, *image_end = nullptr;
    std::deque<CuemuKernel> kernels;
    std::vector<std::string> kernel_functions;  // each kernel's demangled symbol
    std::deque<std::string> kernel_names;       // of those that were defined later
    std::unordered_map<std::string, int64_t> symbols;  // of a whole program: mangled name -> offset
    bool can_block = false;
    std::vector<Symbol> shared;   // static __shared__ arrays
    std::vector<Symbol> guards;   // "already constructed" flags beside shared arrays of class type
    std::vector<Symbol> globals;  // __device__ and __constant__ variables
    std::vector<std::string> dynamic_names;  // what the source calls the dynamic shared array
    int64_t dynamic_offset = 0;
    size_t dynamic_capacity = 0;
    // Of arrays that functions declare for themselves, by file, line and column.
    std::map<std::tuple<std::string, uint32_t, uint32_t>, const char*> own_subscripts;
    int64_t shared_low = 0, shared_high = 0;

    char* shared_base() const { return shared_base_ ? static_cast<char*>(shared_base_()) : nullptr; }
    void poison_shared(uint32_t dynamic_bytes) const;
    // Bytes into the module of the call that returns to `site`.
    uint64_t offset(const void* site) const {
        return static_cast<uint64_t>(static_cast<const char*>(site) - base - 1);
    }
    std::string describe() const;  // JSON for Python
    std::string describe_kernel(uint32_t index) const;
    // A kernel of a whole program, by the mangled names of it and of its thunk; false: no such names.
    bool define(const std::string& kernel, const std::string& thunk, uint32_t& index);

    void* (*shared_base_)() = nullptr;
};

// `program`: a whole program, whose kernels are defined one by one and whose host code stays unbound.
Module* load_module(const char* path, bool program, std::string& error);
void unload_module(Module* module);
// Every __device__ and __constant__ variable of `to` holds what the same one of `from` holds: the
// fast and the trace build of a file are one module to the learner.
void copy_variables(const Module& from, const Module& to);

}  // namespace cuemu
