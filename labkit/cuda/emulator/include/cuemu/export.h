// Appended to every .cu file: unpacks the argument array as cuLaunchKernel does, and describes
// each parameter so that Python can refuse a wrong argument before anything runs.
#pragma once

#ifdef __clang__
#define CUEMU_SILENT __attribute__((no_sanitize("thread"), no_sanitize("coverage")))
#else
#define CUEMU_SILENT __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#endif

namespace cuemu {
template <class T> struct Describe {
    static constexpr CuemuParam param{sizeof(T), Number<typename Bare<T>::type>::kind, CUEMU_OTHER, 0, 0};
};
template <class T> struct PointeeSize { static constexpr uint32_t value = sizeof(T); };
template <> struct PointeeSize<void> { static constexpr uint32_t value = 0; };
template <class T> struct Describe<T*> {
    using Pointee = typename Bare<T>::type;
    static constexpr CuemuParam param{sizeof(T*), CUEMU_POINTER, Number<Pointee>::kind,
                                      Bare<T>::is_const, PointeeSize<Pointee>::value};
};
template <class T> struct Describe<T* __restrict__> : Describe<T*> {};
template <class T> struct Describe<T* const> : Describe<T*> {};

template <int... I> struct Indices {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { using type = Indices<I...>; };

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
// Where this OS thread's copy of the shared variables starts, and where the module's code is.
extern "C" {
__attribute__((visibility("default"))) thread_local char cuemu_shared_anchor[8];
__attribute__((visibility("default"))) CUEMU_SILENT void* cuemu_shared_base() {
    return cuemu_shared_anchor;
}
}
