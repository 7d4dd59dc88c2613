// ldmatrix and mma.m16n8k*: which lane holds which element of a matrix, as PTX lays them out.
#pragma once
#include "small_float.h"

namespace cuemu {
namespace ptx {

// A register's bits as a T, and as what a place holds.
template <class T, class From> CUEMU_INLINE T as(From value) {
    if constexpr (sizeof(T) == sizeof(From) && !Same<T, bool>::value) {
        return bits<T>(value);
    } else {
        return (T)value;
    }
}
struct Nothing {};  // PTX's `_`
constexpr Nothing nothing;
template <class T> CUEMU_INLINE void put(const Nothing&, T) {}
template <class Place, class T> CUEMU_INLINE void put(Place& place, T value) { place = as<Place>(value); }

struct HalfElement {
    using Sum = float;
    static constexpr int kBits = 16;
    CUEMU_QUIET static float value(unsigned pattern) { return Half::widen((unsigned short)pattern); }
};
struct Bfloat16Element {
    using Sum = float;
    static constexpr int kBits = 16;
    CUEMU_QUIET static float value(unsigned pattern) { return Bfloat16::widen((unsigned short)pattern); }
};
struct Tf32Element {
    using Sum = float;
    static constexpr int kBits = 32;
    CUEMU_QUIET static float value(unsigned pattern) { return bits<float>(pattern & 0xffffe000u); }
};
struct ByteElement {
    using Sum = int;
    static constexpr int kBits = 8;
    CUEMU_QUIET static int value(unsigned pattern) { return (signed char)pattern; }
};
struct UnsignedByteElement {
    using Sum = int;
    static constexpr int kBits = 8;
    CUEMU_QUIET static int value(unsigned pattern) { return (unsigned char)pattern; }
};

template <int N> struct List { unsigned x[N]; };
template <class... T> CUEMU_INLINE List<sizeof...(T)> list(T... registers) { return {{as<unsigned>(registers)...}}; }

// Eight rows of 16 bytes to a matrix: lane 8m + r says where row r of matrix m lies.
template <int N, bool Turned> struct Matrices {
    CuemuWarpCall function;
    unsigned rows[4], got[N];
    CUEMU_QUIET static void run(void* const* handed) {
        for (unsigned lane = 0; lane < 32; ++lane) {
            for (unsigned m = 0; m < N; ++m) {
                unsigned both = 0;
                for (unsigned i = 0; i < 2; ++i) {
                    const unsigned row = Turned ? lane % 4 * 2 + i : lane / 4, column = Turned ? lane / 4 : lane % 4 * 2 + i;
                    const unsigned* const source = static_cast<Matrices*>(handed[8 * m + row])->rows;
                    both |= (source[column / 2] >> (column % 2 * 16) & 0xffffu) << (16 * i);
                }
                static_cast<Matrices*>(handed[lane])->got[m] = both;
            }
        }
    }
};
template <int N, bool Turned, class... Place> CUEMU_INLINE void load_matrices(const char* row, Place&... places) {
    static_assert(sizeof...(Place) == N, "as many registers as matrices");
    Matrices<N, Turned> mine{&Matrices<N, Turned>::run, {}, {}};
    if ((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32 < 8 * N) {
        *(Raw<16>::type*)mine.rows = *(const Raw<16>::type*)row;
    }
    cuemu_block_warp(CUEMU_CALL, CUEMU_FULL, (uint64_t)&mine, 0, 32);
    int i = 0;
    (put(places, mine.got[i++]), ...);
}

// d = a b + c. A register holds neighbours of a row of a, of a column of b; four lanes share a row.
template <int K, class D, class A, class B> struct Product {
    static constexpr int kTogether = 32 / A::kBits, kHalves = K / (4 * kTogether), kSums = Same<D, HalfElement>::value ? 2 : 4;
    CuemuWarpCall function;
    unsigned a[2 * kHalves], b[kHalves], c[kSums], d[kSums];

    CUEMU_QUIET static typename A::Sum left(Product* const* lanes, int row, int k) {
        const int rest = k % (4 * kTogether), number = row / 8 + 2 * (k / (4 * kTogether));
        const unsigned held = lanes[row % 8 * 4 + rest / kTogether]->a[number];
        return A::value(held >> (rest % kTogether * A::kBits % 32));
    }
    CUEMU_QUIET static typename A::Sum right(Product* const* lanes, int k, int column) {
        const int rest = k % (4 * kTogether);
        const unsigned held = lanes[column * 4 + rest / kTogether]->b[k / (4 * kTogether)];
        return B::value(held >> (rest % kTogether * B::kBits % 32));
    }
    CUEMU_QUIET static void run(void* const* handed) {
        Product* const* lanes = reinterpret_cast<Product* const*>(handed);
        for (int row = 0; row < 16; ++row) {
            for (int column = 0; column < 8; ++column) {
                typename A::Sum sum = 0;
                for (int k = 0; k < K; ++k) sum += left(lanes, row, k) * right(lanes, k, column);
                Product& owner = *lanes[row % 8 * 4 + column / 2];
                if constexpr (kSums == 2) {
                    const unsigned shift = column % 2 * 16u, place = (unsigned)row / 8;
                    const unsigned added = Half::round(Half::widen((unsigned short)(owner.c[place] >> shift)) + sum);
                    owner.d[place] = (owner.d[place] & ~(0xffffu << shift)) | added << shift;
                } else {
                    const int place = row / 8 * 2 + column % 2;
                    owner.d[place] = bits<unsigned>((D)(bits<D>(owner.c[place]) + sum));
                }
            }
        }
    }
};
template <int K, class D, class A, class B, int NA, int NB, int NC, class... Place>
CUEMU_INLINE void multiply(List<NA> a, List<NB> b, List<NC> c, Place&... places) {
    using Mine = Product<K, D, A, B>;
    static_assert(NA == 2 * Mine::kHalves && NB == Mine::kHalves && NC == Mine::kSums && sizeof...(Place) == Mine::kSums,
                  "as many registers as the shape has");
    Mine mine{&Mine::run, {}, {}, {}, {}};
    for (int i = 0; i < NA; ++i) mine.a[i] = a.x[i];
    for (int i = 0; i < NB; ++i) mine.b[i] = b.x[i];
    for (int i = 0; i < NC; ++i) mine.c[i] = c.x[i];
    cuemu_block_warp(CUEMU_CALL, CUEMU_FULL, (uint64_t)&mine, 0, 32);
    int i = 0;
    (put(places, mine.d[i++]), ...);
}

}  // namespace ptx
}  // namespace cuemu
