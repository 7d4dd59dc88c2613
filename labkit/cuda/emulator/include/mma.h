// nvcuda::wmma for half, bfloat16, tf32, int8 and double. A fragment's elements lie where they are convenient, as the
// hardware's layout is unspecified too: each lane holds every 32nd element.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K> struct cuemu_extent;
template <int M, int N, int K> struct cuemu_extent<matrix_a, M, N, K> { enum { rows = M, columns = K }; };
template <int M, int N, int K> struct cuemu_extent<matrix_b, M, N, K> { enum { rows = K, columns = N }; };
template <int M, int N, int K> struct cuemu_extent<accumulator, M, N, K> { enum { rows = M, columns = N }; };

namespace precision {
struct tf32;
}
// A matrix's type: of its elements, of its sums, and the shapes it comes in. An accumulator's is asked
// with the K of its product.
template <class T> struct cuemu_wmma_type {
    static constexpr bool fits(int, int, int) { return false; }
};
#define CUEMU_WMMA_TYPE(T, ELEMENT, SUM, FITS)                                       \
    template <> struct cuemu_wmma_type<T> {                                          \
        using element = ELEMENT;                                                     \
        using sum = SUM;                                                             \
        static constexpr bool fits(int m, int n, int k) { return FITS; }             \
    };
CUEMU_WMMA_TYPE(__half, __half, float, k == 16 && m * n == 256)
CUEMU_WMMA_TYPE(__nv_bfloat16, __nv_bfloat16, float, k == 16 && m * n == 256)
CUEMU_WMMA_TYPE(float, float, float, (k == 16 && m * n == 256) || (k == 8 && m == 16 && n == 16))
CUEMU_WMMA_TYPE(precision::tf32, float, float, k == 8 && m == 16 && n == 16)
CUEMU_WMMA_TYPE(signed char, signed char, int, k == 16 && m * n == 256)
CUEMU_WMMA_TYPE(unsigned char, unsigned char, int, k == 16 && m * n == 256)
CUEMU_WMMA_TYPE(int, int, int, k == 16 && m * n == 256)
CUEMU_WMMA_TYPE(double, double, double, k == 4 && m == 8 && n == 8)
#undef CUEMU_WMMA_TYPE

template <class Use, int M, int N, int K, class T, class Layout = void> class fragment {
    static_assert(cuemu_wmma_type<T>::fits(M, N, K), "cuemu_unsupported_wmma_type");

   public:
    using element_type = typename cuemu_wmma_type<T>::element;
    enum { rows = cuemu_extent<Use, M, N, K>::rows, columns = cuemu_extent<Use, M, N, K>::columns };
    enum { num_elements = rows * columns / 32 };
    element_type x[num_elements];
};

template <class F, class T> CUEMU_INLINE void fill_fragment(F& f, T value) {
    for (int i = 0; i < F::num_elements; ++i) f.x[i] = typename F::element_type(value);
}

namespace cuemu_detail {
CUEMU_INLINE unsigned lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}
template <class F, class T> CUEMU_INLINE void load(F& f, const T* from, unsigned stride, bool row_wise) {
    __syncwarp();
    for (int i = 0; i < F::num_elements; ++i) {
        const unsigned e = i * 32 + lane();
        const unsigned major = row_wise ? e / F::columns : e / F::rows;
        const unsigned minor = row_wise ? e % F::columns : e % F::rows;
        const unsigned r = row_wise ? major : minor, c = row_wise ? minor : major;
        (void)r, (void)c;
        f.x[i] = from[major * stride + minor];
    }
}
template <class Layout> struct RowWise;
template <> struct RowWise<row_major> { enum { value = 1 }; };
template <> struct RowWise<col_major> { enum { value = 0 }; };
// The element at (row, column) of a fragment whose storage order is row_wise or not.
template <class F> CUEMU_QUIET typename F::element_type& at(F* const* lanes, int r, int c, bool row_wise) {
    const int e = row_wise ? r * F::columns + c : c * F::rows + r;
    return lanes[e % 32]->x[e / 32];
}
template <class Sum, class D, class A, class B, class C, bool a_rows, bool b_rows> struct Call {
    CuemuWarpCall function;
    D* d;
    const A* a;
    const B* b;
    const C* c;
    CUEMU_QUIET static void run(void* const* handed) {
        D* d[32];
        A* a[32];
        B* b[32];
        C* c[32];
        for (int i = 0; i < 32; ++i) {
            const Call* call = static_cast<const Call*>(handed[i]);
            d[i] = call->d, a[i] = const_cast<A*>(call->a), b[i] = const_cast<B*>(call->b), c[i] = const_cast<C*>(call->c);
        }
        for (int row = 0; row < D::rows; ++row) {
            for (int column = 0; column < D::columns; ++column) {
                Sum sum = 0;
                for (int k = 0; k < A::columns; ++k) {
                    sum += (Sum)at<A>(a, row, k, a_rows) * (Sum)at<B>(b, k, column, b_rows);
                }
                at<D>(d, row, column, true) = typename D::element_type((Sum)at<C>(c, row, column, true) + sum);
            }
        }
    }
};
}  // namespace cuemu_detail

template <class Use, int M, int N, int K, class T, class Layout>
CUEMU_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f,
                                   const typename fragment<Use, M, N, K, T, Layout>::element_type* from, unsigned stride) {
    cuemu_detail::load(f, from, stride, cuemu_detail::RowWise<Layout>::value);
}
template <int M, int N, int K, class T>
CUEMU_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* from, unsigned stride,
                                   layout_t layout) {
    __syncwarp();
    for (int i = 0; i < f.num_elements; ++i) {
        const unsigned e = i * 32 + cuemu_detail::lane(), r = e / N, c = e % N;
        f.x[i] = from[layout == mem_row_major ? r * stride + c : c * stride + r];
    }
}
template <int M, int N, int K, class T>
CUEMU_INLINE void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& f, unsigned stride,
                                    layout_t layout) {
    __syncwarp();
    for (int i = 0; i < f.num_elements; ++i) {
        const unsigned e = i * 32 + cuemu_detail::lane(), r = e / N, c = e % N;
        to[layout == mem_row_major ? r * stride + c : c * stride + r] = f.x[i];
    }
    __syncwarp();
}
template <int M, int N, int K, class TD, class TA, class LA, class LB, class TC>
CUEMU_INLINE void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
                           const fragment<matrix_b, M, N, K, TA, LB>& b,
                           const fragment<accumulator, M, N, K, TC>& c) {
    using Sum = typename cuemu_wmma_type<TA>::sum;
    using Call = cuemu_detail::Call<Sum, fragment<accumulator, M, N, K, TD>, fragment<matrix_a, M, N, K, TA, LA>,
                                    fragment<matrix_b, M, N, K, TA, LB>, fragment<accumulator, M, N, K, TC>,
                                    cuemu_detail::RowWise<LA>::value, cuemu_detail::RowWise<LB>::value>;
    const fragment<accumulator, M, N, K, TC> kept = c;  // c and d may be one
    Call call{&Call::run, &d, &a, &b, &kept};
    cuemu_block_warp(CUEMU_CALL, 0xffffffffu, (uint64_t)&call, 0, 32);
}

// To tf32's 10 bits of mantissa, ties away from zero.
CUEMU_INLINE float __float_to_tf32(float value) {
    const unsigned bits = __float_as_uint(value);
    const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    return __uint_as_float(finite ? (bits + 0x1000u) & 0xffffe000u : bits);
}

}  // namespace wmma
}  // namespace nvcuda
