// Philox 4x32 with 10 rounds: a counter, encrypted. Nothing is kept between two calls.
#pragma once

__device__ __forceinline__ uint4 philox4x32_10(uint4 counter, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned long long a = 0xD2511F53ull * counter.x, b = 0xCD9E8D57ull * counter.z;
        const unsigned a_high = static_cast<unsigned>(a >> 32);
        const unsigned b_high = static_cast<unsigned>(b >> 32);
        counter = make_uint4(b_high ^ counter.y ^ key.x, static_cast<unsigned>(b),
                             a_high ^ counter.w ^ key.y, static_cast<unsigned>(a));
        key = make_uint2(key.x + 0x9E3779B9u, key.y + 0xBB67AE85u);
    }
    return counter;
}

// The four words at `offset`, a multiple of 4, of a subsequence under a seed: as a cuRAND state
// gives them that was made with these three numbers.
__device__ __forceinline__ uint4 random4(unsigned long long seed, unsigned long long subsequence,
                                         unsigned long long offset) {
    const unsigned long long block = offset / 4;
    const uint4 counter = make_uint4(
        static_cast<unsigned>(block), static_cast<unsigned>(block >> 32),
        static_cast<unsigned>(subsequence), static_cast<unsigned>(subsequence >> 32));
    const uint2 key =
        make_uint2(static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
    return philox4x32_10(counter, key);
}
