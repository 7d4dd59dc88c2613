// Histogram, rung 2 of 3: a histogram per block in shared memory.
// Shared atomics queue up within one block only, and an addition costs far less there. Global
// memory sees one addition per bin and block instead of one per number. Bins that do not fit are
// dealt with in slices: a second grid dimension of blocks, each with eyes for its slice alone.
//
// x [n] f32, counts [bins] u64, zero before, bins from low to high
// launch: grid (anything, ceil(bins / slice)), block (anything), shared memory (slice) ints
// Counter: read global.x sectors/request = 4
// Counter: atomic shared.mine lanes/input = 1
// Counter: atomic global.counts lanes/block = 64
#include "lab.cuh"
#include "histogram.cuh"

extern "C" __global__ void histogram_2_shared(const float* __restrict__ x,
                                              unsigned long long* counts, long long n, int bins,
                                              float low, float high, int slice) {
    extern __shared__ unsigned mine[];  // a block must see fewer than 2^32 numbers
    const int first = blockIdx.y * slice, here = min(slice, bins - first);
    for (int b = threadIdx.x; b < here; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const int bin = bin_of(x[i], low, high, bins) - first;
        if (bin >= 0 && bin < here) atomicAdd(&mine[bin], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < here; b += blockDim.x) {
        atomicAdd(&counts[first + b], static_cast<unsigned long long>(mine[b]));
    }
}
