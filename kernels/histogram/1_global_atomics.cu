// Histogram, rung 1 of 3: one atomic in global memory per number.
// Right for any number of bins, and slow where many numbers share few bins: additions to one
// address queue up, over the whole device.
//
// x [n] f32, counts [bins] u64, zero before, bins from low to high
// launch: grid (anything), block (anything)
// Counter: read global.x sectors/request = 4
// Counter: atomic global.counts lanes/input = 1
#include "lab.cuh"
#include "histogram.cuh"

extern "C" __global__ void histogram_1_global_atomics(const float* __restrict__ x,
                                                      unsigned long long* counts, long long n,
                                                      int bins, float low, float high) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const int bin = bin_of(x[i], low, high, bins);
        if (bin >= 0) atomicAdd(&counts[bin], 1ULL);
    }
}
