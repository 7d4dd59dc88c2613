// The part of Thrust that public programs use: two vectors, and algorithms on them. An algorithm on
// device memory is the standard library's on a copy of it, here on the host: its result is a reference,
// and no kernel of it is launched or watched.
#pragma once
#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace thrust {

// A failed call of the runtime ends the algorithm, as Thrust's own errors do.
struct system_error : std::runtime_error {
    explicit system_error(cudaError_t error) : std::runtime_error(cudaGetErrorString(error)) {}
};
namespace cuemu_detail {
inline void checked(cudaError_t error) {
    if (error != cudaSuccess) throw system_error(error);
}
}  // namespace cuemu_detail

template <class T> class device_ptr;
// What stands on the left of an assignment to an element: the element is copied there and back.
template <class T> class device_reference {
   public:
    explicit device_reference(T* at) : at_(at) {}
    operator T() const {
        T value;
        cuemu_detail::checked(::cudaMemcpy(&value, at_, sizeof(T), cudaMemcpyDeviceToHost));
        return value;
    }
    const device_reference& operator=(const T& value) const {
        cuemu_detail::checked(::cudaMemcpy(const_cast<std::remove_const_t<T>*>(at_), &value, sizeof(T), cudaMemcpyHostToDevice));
        return *this;
    }
    const device_reference& operator=(const device_reference& other) const { return *this = (T)other; }
    device_ptr<T> operator&() const { return device_ptr<T>(at_); }

   private:
    T* at_;
};
template <class T> class device_ptr {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = std::remove_const_t<T>;
    using difference_type = ptrdiff_t;
    using pointer = T*;
    using reference = device_reference<T>;

    device_ptr() = default;
    explicit device_ptr(T* at) : at_(at) {}
    template <class U> device_ptr(const device_ptr<U>& other) : at_(other.get()) {}
    T* get() const { return at_; }
    reference operator*() const { return reference(at_); }
    reference operator[](ptrdiff_t i) const { return reference(at_ + i); }
    device_ptr& operator+=(ptrdiff_t n) { return at_ += n, *this; }
    device_ptr& operator-=(ptrdiff_t n) { return at_ -= n, *this; }
    device_ptr& operator++() { return *this += 1; }
    device_ptr& operator--() { return *this -= 1; }
    device_ptr operator++(int) { return device_ptr(at_++); }
    device_ptr operator--(int) { return device_ptr(at_--); }
    device_ptr operator+(ptrdiff_t n) const { return device_ptr(at_ + n); }
    device_ptr operator-(ptrdiff_t n) const { return device_ptr(at_ - n); }
    ptrdiff_t operator-(const device_ptr& other) const { return at_ - other.at_; }
    bool operator==(const device_ptr& other) const { return at_ == other.at_; }
    bool operator!=(const device_ptr& other) const { return at_ != other.at_; }
    bool operator<(const device_ptr& other) const { return at_ < other.at_; }

   private:
    T* at_ = nullptr;
};
template <class T> device_ptr<T> device_pointer_cast(T* at) { return device_ptr<T>(at); }
template <class T> T* raw_pointer_cast(const device_ptr<T>& at) { return at.get(); }
template <class T> T* raw_pointer_cast(T* at) { return at; }

namespace cuemu_detail {
template <class T> std::vector<std::remove_const_t<T>> taken(device_ptr<T> first, device_ptr<T> last) {
    std::vector<std::remove_const_t<T>> values((size_t)(last - first));
    if (!values.empty()) checked(::cudaMemcpy(values.data(), first.get(), values.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}
template <class It> auto taken(It first, It last) {
    return std::vector<typename std::iterator_traits<It>::value_type>(first, last);
}
template <class V, class T> device_ptr<T> given(const std::vector<V>& values, device_ptr<T> to) {
    const std::vector<T> cast(values.begin(), values.end());
    if (!cast.empty()) checked(::cudaMemcpy(to.get(), cast.data(), cast.size() * sizeof(T), cudaMemcpyHostToDevice));
    return to + (ptrdiff_t)cast.size();
}
template <class V, class It> It given(const std::vector<V>& values, It to) { return std::copy(values.begin(), values.end(), to); }
}  // namespace cuemu_detail

template <class T> class host_vector : public std::vector<T> {
   public:
    using std::vector<T>::vector;
    host_vector() = default;
    host_vector(const std::vector<T>& values) : std::vector<T>(values) {}
    template <class V, class = decltype(std::declval<const V&>().on_device())> host_vector(const V& other) : std::vector<T>(cuemu_detail::taken(other.begin(), other.end())) {}
};
template <class T> class device_vector {
   public:
    using value_type = T;
    using iterator = device_ptr<T>;
    using const_iterator = device_ptr<const T>;
    using reference = device_reference<T>;

    device_vector() = default;
    explicit device_vector(size_t size, const T& value = T()) { resize(size, value); }
    template <class It, class = typename std::iterator_traits<It>::value_type> device_vector(It first, It last) {
        keep(cuemu_detail::taken(first, last));
    }
    device_vector(const std::vector<T>& values) { keep(values); }
    device_vector(const device_vector& other) { keep(cuemu_detail::taken(other.begin(), other.end())); }
    device_vector(device_vector&& other) noexcept { swap(other); }
    device_vector& operator=(device_vector other) { return swap(other), *this; }
    ~device_vector() { ::cudaFree(data_); }
    void swap(device_vector& other) noexcept { std::swap(data_, other.data_), std::swap(size_, other.size_); }
    void resize(size_t size, const T& value = T()) {
        std::vector<T> values = cuemu_detail::taken(begin(), end());
        values.resize(size, value);
        device_vector made;
        made.keep(values);
        swap(made);
    }
    void clear() { device_vector().swap(*this); }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    iterator begin() { return iterator(data_); }
    iterator end() { return iterator(data_ + size_); }
    const_iterator begin() const { return const_iterator(data_); }
    const_iterator end() const { return const_iterator(data_ + size_); }
    device_ptr<T> data() { return begin(); }
    reference operator[](size_t i) { return begin()[(ptrdiff_t)i]; }
    T operator[](size_t i) const { return begin()[(ptrdiff_t)i]; }
    void on_device() const {}

   private:
    void keep(const std::vector<T>& values) {
        size_ = values.size();
        if (size_) cuemu_detail::checked(::cudaMalloc((void**)&data_, size_ * sizeof(T)));
        cuemu_detail::given(values, begin());
    }
    T* data_ = nullptr;
    size_t size_ = 0;
};

#define CUEMU_FUNCTOR(NAME, EXPRESSION)                                                                 \
    template <class T = void> struct NAME {                                                             \
        __host__ __device__ auto operator()(const T& a, const T& b) const { return EXPRESSION; }         \
    };
CUEMU_FUNCTOR(plus, T(a + b))
CUEMU_FUNCTOR(minus, T(a - b))
CUEMU_FUNCTOR(multiplies, T(a * b))
CUEMU_FUNCTOR(maximum, a < b ? b : a)
CUEMU_FUNCTOR(minimum, b < a ? b : a)
CUEMU_FUNCTOR(less, a < b)
CUEMU_FUNCTOR(greater, b < a)
CUEMU_FUNCTOR(equal_to, a == b)
#undef CUEMU_FUNCTOR

template <class It, class Out> Out copy(It first, It last, Out to) { return cuemu_detail::given(cuemu_detail::taken(first, last), to); }
template <class It, class V> void fill(It first, It last, const V& value) {
    using T = typename std::iterator_traits<It>::value_type;
    cuemu_detail::given(std::vector<T>((size_t)(last - first), T(value)), first);
}
template <class It, class Make> void generate(It first, It last, Make make) {
    std::vector<typename std::iterator_traits<It>::value_type> values((size_t)(last - first));
    std::generate(values.begin(), values.end(), make);
    cuemu_detail::given(values, first);
}
template <class It> void sequence(It first, It last) {
    std::vector<typename std::iterator_traits<It>::value_type> values((size_t)(last - first));
    std::iota(values.begin(), values.end(), typename std::iterator_traits<It>::value_type(0));
    cuemu_detail::given(values, first);
}
template <class It, class Out, class Do> Out transform(It first, It last, Out to, Do each) {
    const auto values = cuemu_detail::taken(first, last);
    std::vector<typename std::iterator_traits<Out>::value_type> made;
    for (const auto& one : values) made.push_back(each(one));
    return cuemu_detail::given(made, to);
}
template <class It, class It2, class Out, class Do> Out transform(It first, It last, It2 second, Out to, Do each) {
    const auto a = cuemu_detail::taken(first, last);
    const auto b = cuemu_detail::taken(second, second + (last - first));
    std::vector<typename std::iterator_traits<Out>::value_type> made;
    for (size_t i = 0; i < a.size(); ++i) made.push_back(each(a[i], b[i]));
    return cuemu_detail::given(made, to);
}
template <class It, class T, class Op> T reduce(It first, It last, T start, Op op) {
    for (const auto& one : cuemu_detail::taken(first, last)) start = op(start, one);
    return start;
}
template <class It, class T> T reduce(It first, It last, T start) { return reduce(first, last, start, plus<T>()); }
template <class It> auto reduce(It first, It last) { return reduce(first, last, typename std::iterator_traits<It>::value_type(0)); }
template <class It, class Each, class T, class Op> T transform_reduce(It first, It last, Each each, T start, Op op) {
    for (const auto& one : cuemu_detail::taken(first, last)) start = op(start, each(one));
    return start;
}
template <class It, class Out, class Op> Out inclusive_scan(It first, It last, Out to, Op op) {
    auto values = cuemu_detail::taken(first, last);
    for (size_t i = 1; i < values.size(); ++i) values[i] = op(values[i - 1], values[i]);
    return cuemu_detail::given(values, to);
}
template <class It, class Out> Out inclusive_scan(It first, It last, Out to) {
    return inclusive_scan(first, last, to, plus<typename std::iterator_traits<It>::value_type>());
}
template <class It, class Out, class T, class Op> Out exclusive_scan(It first, It last, Out to, T start, Op op) {
    const auto values = cuemu_detail::taken(first, last);
    std::vector<T> made;
    for (const auto& one : values) made.push_back(start), start = op(start, one);
    return cuemu_detail::given(made, to);
}
template <class It, class Out, class T> Out exclusive_scan(It first, It last, Out to, T start) {
    return exclusive_scan(first, last, to, start, plus<T>());
}
template <class It, class Out> Out exclusive_scan(It first, It last, Out to) {
    return exclusive_scan(first, last, to, typename std::iterator_traits<It>::value_type(0));
}
template <class It, class Less> void sort(It first, It last, Less before) {
    auto values = cuemu_detail::taken(first, last);
    std::stable_sort(values.begin(), values.end(), before);
    cuemu_detail::given(values, first);
}
template <class It> void sort(It first, It last) { sort(first, last, less<typename std::iterator_traits<It>::value_type>()); }
template <class It, class... Less> void stable_sort(It first, It last, Less... before) { sort(first, last, before...); }
template <class Keys, class Values, class Less> void sort_by_key(Keys first, Keys last, Values values, Less before) {
    auto keys = cuemu_detail::taken(first, last);
    auto others = cuemu_detail::taken(values, values + (last - first));
    std::vector<size_t> order(keys.size());
    std::iota(order.begin(), order.end(), (size_t)0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(keys[a], keys[b]); });
    const auto old_keys = keys;
    const auto old_others = others;
    for (size_t i = 0; i < order.size(); ++i) keys[i] = old_keys[order[i]], others[i] = old_others[order[i]];
    cuemu_detail::given(keys, first);
    cuemu_detail::given(others, values);
}
template <class Keys, class Values> void sort_by_key(Keys first, Keys last, Values values) {
    sort_by_key(first, last, values, less<typename std::iterator_traits<Keys>::value_type>());
}
template <class It> bool is_sorted(It first, It last) {
    const auto values = cuemu_detail::taken(first, last);
    return std::is_sorted(values.begin(), values.end());
}
template <class It, class V> ptrdiff_t count(It first, It last, const V& value) {
    const auto values = cuemu_detail::taken(first, last);
    return std::count(values.begin(), values.end(), value);
}

}  // namespace thrust
