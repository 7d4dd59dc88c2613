// A fiber is a stack that can be left and come back to. One CUDA thread that blocks owns one.
#pragma once
#include <stddef.h>

namespace cuemu {

constexpr size_t kStackBytes = 256 * 1024;  // local memory of one CUDA thread, committed lazily

struct Fiber {
    void* sp = nullptr;
    char* stack = nullptr;  // lowest usable byte; what lies below it faults
    char* top = nullptr;
    void start(void (*entry)());  // the next switch to it runs entry on an empty stack
};

Fiber* new_fiber(unsigned index);
extern "C" void cuemu_switch(void** save_sp, void* load_sp);

}  // namespace cuemu
