#pragma once
// The modern way: a kernel is one lambda over scalar_t, and a macro turns a dtype code into a
// switch whose cases each compile the lambda with scalar_t set to their type. Which dtypes a
// kernel has is chosen by a tag at its call: every case costs its copy of the machine code.
//
// In PyTorch: aten/src/ATen/Dispatch.h AT_DISPATCH_SWITCH and AT_DISPATCH_CASE, and the tags of
// aten/src/ATen/Dispatch_v2.h.
#include <cstdint>
#include <stdexcept>
#include <string>

namespace lab {

inline const char *name_of(int dtype) {
    switch (dtype) {
#define X(NAME, CTYPE, CODE) \
    case CODE: return #NAME;
#include "../macros/dtypes.h"
#undef X
        case 5: return "Half";
        case 9: return "ComplexFloat";
        case 15: return "BFloat16";
    }
    return "a dtype this library has no name for";
}

[[noreturn]] inline void no_kernel(const char *kernel, int dtype) {
    throw std::invalid_argument(std::string("\"") + kernel + "\" is not compiled for " +
                                name_of(dtype) + " (dtype code " + std::to_string(dtype) + ")");
}

}  // namespace lab

#define LAB_DISPATCH_CASE(CODE, CTYPE, ...) \
    case CODE: {                            \
        using scalar_t = CTYPE;             \
        return __VA_ARGS__();               \
    }

#define LAB_DISPATCH_SWITCH(DTYPE, KERNEL, ...) \
    [&] {                                       \
        switch (DTYPE) {                        \
            __VA_ARGS__                         \
            default: lab::no_kernel(KERNEL, DTYPE); \
        }                                       \
    }()

#define LAB_FLOATING_TYPES(...)              \
    LAB_DISPATCH_CASE(6, float, __VA_ARGS__) \
    LAB_DISPATCH_CASE(7, double, __VA_ARGS__)

#define LAB_INTEGRAL_TYPES(...)                \
    LAB_DISPATCH_CASE(0, uint8_t, __VA_ARGS__) \
    LAB_DISPATCH_CASE(1, int8_t, __VA_ARGS__)  \
    LAB_DISPATCH_CASE(2, int16_t, __VA_ARGS__) \
    LAB_DISPATCH_CASE(3, int32_t, __VA_ARGS__) \
    LAB_DISPATCH_CASE(4, int64_t, __VA_ARGS__)

#define LAB_ALL_TYPES(...) LAB_FLOATING_TYPES(__VA_ARGS__) LAB_INTEGRAL_TYPES(__VA_ARGS__)

#define LAB_ALL_TYPES_AND_BOOL(...) \
    LAB_ALL_TYPES(__VA_ARGS__) LAB_DISPATCH_CASE(11, bool, __VA_ARGS__)
