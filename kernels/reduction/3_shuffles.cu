// Sum of all elements, rung 3 of 4: registers pass sideways, shared memory holds one float a warp.
// Five shuffles replace five rounds of shared memory and barriers; what is left of shared memory is
// one write per warp and one read by the first warp. Each thread adds many elements first.
//
// x [n] f32, out [1] f32, zero before        launch: grid (anything), block (256)
// Counter: read global.x sectors/request = 4
// Counter: write shared.partial lanes/block = 8
#include "lab.cuh"

extern "C" __global__ void reduction_3_shuffles(const float* __restrict__ x, float* out,
                                                long long n) {
    float sum = 0.0f;
    for (long long i = global_thread(); i < n; i += grid_threads()) sum += x[i];
    sum = block_reduce_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}
