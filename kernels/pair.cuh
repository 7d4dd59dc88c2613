// Two sums that cross a block together.
#pragma once
#include "lab.cuh"

struct Pair {
    float first, second;
};

struct AddPairs {
    __device__ Pair operator()(Pair a, Pair b) const {
        return {a.first + b.first, a.second + b.second};
    }
};

__device__ __forceinline__ Pair shuffle_xor(Pair p, int bits) {
    return {shuffle_xor(p.first, bits), shuffle_xor(p.second, bits)};
}
