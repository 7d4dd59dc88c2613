// What Python is told of a kernel's parameters, so that it can refuse a wrong argument before
// anything runs.
#pragma once

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
}  // namespace cuemu
