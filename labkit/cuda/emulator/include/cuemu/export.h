// Appended to every .cu file: unpacks the argument array as cuLaunchKernel does, and exports kernels.
#pragma once
#include "describe.h"

namespace cuemu {
template <class... A> struct Export;
template <class... A> struct Export<void (*)(A...)> {
    static constexpr CuemuParam params[sizeof...(A) + 1] = {Describe<A>::param..., {}};
    template <void (*kernel)(A...), int... I>
    CUEMU_SILENT static void call(void** a, Indices<I...>) {
        kernel(*static_cast<typename Bare<A>::type*>(a[I])...);
    }
    template <void (*kernel)(A...)> CUEMU_SILENT static void thread(void** a) {
        call<kernel>(a, typename Count<sizeof...(A)>::type());
    }
    template <void (*kernel)(A...)> CUEMU_SILENT static void block(void** a) {
        const uint3 extent = cuemu_state.block_dim;
        for (unsigned z = 0; z < extent.z; ++z) {
            for (unsigned y = 0; y < extent.y; ++y) {
                for (unsigned x = 0; x < extent.x; ++x) {
                    cuemu_state.thread_idx = {x, y, z};
                    call<kernel>(a, typename Count<sizeof...(A)>::type());
                }
            }
        }
    }
    template <void (*kernel)(A...)> static constexpr CuemuKernel entry(const char* name) {
        return {name, thread<kernel>, block<kernel>, params, sizeof...(A), (const void*)kernel};
    }
};
}  // namespace cuemu

#define CUEMU_KERNEL(NAME, ...) \
    cuemu::Export<decltype(static_cast<decltype(&__VA_ARGS__)>(nullptr))>::entry<&__VA_ARGS__>(NAME)
#include "anchor.h"
