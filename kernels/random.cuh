// Numbers of a distribution from four random words, and a grid that lays them out as PyTorch does.
#pragma once
#include "lab.cuh"
#include "philox.cuh"

template <class T, int Count>
struct Numbers {
    T value[Count];
};

// Uniform in (0, 1], as cuRAND makes them: 32 bits each, or 53 bits from two words.
__device__ __forceinline__ float unit_single(unsigned word) {
    return static_cast<float>(word) * 0x1p-32f + 0x1p-33f;
}

__device__ __forceinline__ double unit_double(unsigned low, unsigned high) {
    const unsigned long long bits = low ^ (static_cast<unsigned long long>(high) << 21);
    return static_cast<double>(bits) * 0x1p-53 + 0x1p-54;
}

struct UnitSingles {
    static constexpr int kCount = 4;
    __device__ Numbers<float, 4> operator()(uint4 w) const {
        return {{unit_single(w.x), unit_single(w.y), unit_single(w.z), unit_single(w.w)}};
    }
};

struct UnitDoubles {
    static constexpr int kCount = 2;
    __device__ Numbers<double, 2> operator()(uint4 w) const {
        return {{unit_double(w.x, w.y), unit_double(w.z, w.w)}};
    }
};

// Box and Muller's pairs of normal numbers: the sine first.
struct NormalSingles {
    static constexpr int kCount = 4;
    __device__ Numbers<float, 4> operator()(uint4 w) const {
        Numbers<float, 4> made;
        pair(w.x, w.y, made.value[0], made.value[1]);
        pair(w.z, w.w, made.value[2], made.value[3]);
        return made;
    }
    static __device__ void pair(unsigned x, unsigned y, float& first, float& second) {
        constexpr float kTwoPi = 6.2831855f;
        const float angle = static_cast<float>(y) * (0x1p-32f * kTwoPi) + 0x1p-33f * kTwoPi;
        const float radius = sqrtf(-2.0f * logf(unit_single(x)));
        float sine, cosine;
        __sincosf(angle, &sine, &cosine);
        first = radius * sine;
        second = radius * cosine;
    }
};

struct NormalDoubles {
    static constexpr int kCount = 2;
    __device__ Numbers<double, 2> operator()(uint4 w) const {
        const double radius = sqrt(-2.0 * log(unit_double(w.x, w.y)));
        double sine, cosine;
        sincospi(2.0 * unit_double(w.z, w.w), &sine, &cosine);
        return {{radius * sine, radius * cosine}};
    }
};

struct Words {
    static constexpr int kCount = 4;
    __device__ Numbers<unsigned long long, 4> operator()(uint4 w) const {
        return {{w.x, w.y, w.z, w.w}};
    }
};

struct LongWords {
    static constexpr int kCount = 2;
    __device__ Numbers<unsigned long long, 2> operator()(uint4 w) const {
        return {{static_cast<unsigned long long>(w.x) << 32 | w.y,
                 static_cast<unsigned long long>(w.z) << 32 | w.w}};
    }
};

// use(i, number) for every i below n. Each thread has a subsequence of its own and makes a few
// numbers in a turn; they go one grid's width apart, so that a warp writes neighbours.
template <class Make, class Use>
__device__ __forceinline__ void for_each_drawn(long long n, unsigned long long seed,
                                               unsigned long long offset, Make make, Use use) {
    const long long width = grid_threads();
    for (long long first = global_thread(); first < n; first += width * Make::kCount) {
        const auto made = make(random4(seed, global_thread(), offset));
        offset += 4;
#pragma unroll
        for (int k = 0; k < Make::kCount; ++k) {
            const long long i = first + k * width;
            if (i < n) use(i, made.value[k]);
        }
    }
}
