// The runtime API's way to labkit in labkit's own process: one call of a Python function, where a
// program of its own sends a message (labkit/cuda/programs/host/ask.cpp).
#include "../../cuda/programs/host/ask.h"

#include <stdio.h>
#include <string.h>

extern "C" __attribute__((visibility("hidden"))) char __ehdr_start;  // the linker's: this library

namespace {

using Answer = int32_t (*)(const char* name, int64_t site, const int64_t* numbers, const void* data,
                           int64_t size, int64_t* values);
Answer answer = nullptr;
const char *base, *window_start;
size_t capacity;
thread_local std::string answered;

}  // namespace

// From now on labkit answers; device memory from `start` on is read and written at `window`.
extern "C" void labkit_serve(Answer function, const char* start, const char* window, size_t size) {
    answer = function, base = start, window_start = window, capacity = size;
}
extern "C" void labkit_answer(const char* data, int64_t size) { answered.assign(data, size_t(size)); }

namespace cuemu {

uint64_t offset_of(const void* place) {
    return static_cast<uint64_t>(static_cast<const char*>(place) - &__ehdr_start);
}

char* window(const void* device) {
    const auto* address = static_cast<const char*>(device);
    if (address < base || address >= base + capacity) return nullptr;
    return const_cast<char*>(window_start) + (address - base);
}

Answer ask(const char* name, const void* site, std::initializer_list<int64_t> numbers,
           const void* data, size_t size) {
    int64_t asked[9] = {};
    int i = 0;
    for (const int64_t number : numbers) asked[i++] = number;
    Answer found{};
    if (!answer) {
        found.error = cudaErrorInitializationError;
        return found;
    }
    answered.clear();
    const int32_t error = answer(name, int64_t(offset_of(site)), asked, data, int64_t(size), found.values);
    found.error = static_cast<cudaError_t>(error);
    found.data.swap(answered);
    return found;
}

void expect_calls() {}

}  // namespace cuemu

// Memory that both sides reach belongs to whole programs: labkit refuses what would ask for it.
extern "C" void cuemu_share(int64_t, int64_t) {}
extern "C" void cuemu_unshare(int64_t, int64_t) {}
