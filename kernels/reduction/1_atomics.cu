// Sum of all elements, rung 1 of 4: every thread adds to one address.
// Right, and as slow as it gets: the additions of all threads of the grid queue up at one word.
//
// x [n] f32, out [1] f32, zero before        launch: grid (ceil(n / 256)), block (256)
// Counter: read global.x sectors/request = 4
// Counter: atomic global.out lanes/input = 1
#include "lab.cuh"

extern "C" __global__ void reduction_1_atomics(const float* __restrict__ x, float* out,
                                               long long n) {
    const long long i = global_thread();
    if (i < n) atomicAdd(out, x[i]);
}
