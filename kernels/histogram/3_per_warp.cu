// Histogram, rung 3 of 3: a histogram per warp, and no atomic until the end.
// Lanes that hit the same bin find each other in registers (__match_any_sync); the lowest of them
// adds for all. Within a warp no two lanes then touch one word, and no other warp shares it: plain
// additions do. The price is a histogram per warp in shared memory.
//
// x [n] f32, counts [bins] u64, zero before, bins from low to high
// launch: grid (anything, ceil(bins / slice)), block (whole warps),
//         shared memory (warps * slice) ints
// Counter: read global.x sectors/request = 4
// Counter: atomic shared.* lanes/input = 0
// Counter: atomic global.counts lanes/block = 64
#include "lab.cuh"
#include "histogram.cuh"

extern "C" __global__ void histogram_3_per_warp(const float* __restrict__ x,
                                                unsigned long long* counts, long long n, int bins,
                                                float low, float high, int slice) {
    extern __shared__ unsigned kept[];  // [warps, slice]; a block sees fewer than 2^32 numbers
    const int lane = threadIdx.x % kWarpSize, warps = blockDim.x / kWarpSize;
    unsigned* mine = kept + threadIdx.x / kWarpSize * slice;
    const int first = blockIdx.y * slice, here = min(slice, bins - first);
    for (int b = lane; b < here; b += kWarpSize) mine[b] = 0;
    __syncwarp();

    const long long rounds = (n + grid_threads() - 1) / grid_threads();
    for (long long round = 0; round < rounds; ++round) {  // the same for all lanes: they must meet
        const long long i = round * grid_threads() + global_thread();
        const int bin = i < n ? bin_of(x[i], low, high, bins) - first : -1;
        const unsigned same = __match_any_sync(kFullMask, bin);
        const bool leads = __ffs(same) - 1 == lane;
        if (leads && bin >= 0 && bin < here) mine[bin] += __popc(same);
        __syncwarp();  // another lane may lead for this bin in the next round
    }
    __syncthreads();
    for (int b = threadIdx.x; b < here; b += blockDim.x) {
        unsigned long long sum = 0;
        for (int w = 0; w < warps; ++w) sum += kept[w * slice + b];
        atomicAdd(&counts[first + b], sum);
    }
}
