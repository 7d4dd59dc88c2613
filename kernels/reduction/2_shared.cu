// Sum of all elements, rung 2 of 4: a tree in shared memory, one atomic per block.
// 256 threads halve their number eight times between barriers, so one addition per block reaches
// the global word where rung 1 sent 256.
//
// x [n] f32, out [1] f32, zero before        launch: grid (ceil(n / 256)), block (256)
// Counter: atomic global.out lanes/input = 0.00390625
// Counter: read shared.sums wavefronts/request = 1
#include "lab.cuh"

extern "C" __global__ void reduction_2_shared(const float* __restrict__ x, float* out,
                                              long long n) {
    __shared__ float sums[256];
    const int t = threadIdx.x;
    const long long i = global_thread();
    sums[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) sums[t] += sums[t + step];
        __syncthreads();  // outside the branch: all 256 threads pass
    }
    if (t == 0) atomicAdd(out, sums[0]);
}
