// Squeeze-excite, rung 2 of 3: one block per image does it all.
// Means, hidden units and gates never leave shared memory, and a warp reads a row of weights with
// all lanes together. But the whole image waits for its block: with few images most of a device
// has nothing to do.
//
// x, y [N, C, S], w1 [R, C], b1 [R], w2 [C, R], b2 [C] f32; the biases may be null
// launch: grid (anything up to N), block (whole warps), shared memory (C + R) floats
// Counter: read global.x lanes/output = 2
// Counter: write global.* lanes/output = 1
// Counter: read global.w1 sectors/request = 4
// Counter: read global.w2 sectors/request = 4
#include "lab.cuh"
#include "squeeze_excite.cuh"

extern "C" __global__ void squeeze_excite_2_one_launch(
    const float* __restrict__ x, const float* __restrict__ w1, const float* __restrict__ b1,
    const float* __restrict__ w2, const float* __restrict__ b2, float* __restrict__ y, long long N,
    long long C, long long S, long long R, bool silu) {
    extern __shared__ float mean[];
    float *hidden = mean + C, *gate = mean;  // once there are hidden units, no mean is read again
    const int lane = threadIdx.x % kWarpSize, warps = blockDim.x / kWarpSize;
    for (long long n = blockIdx.x; n < N; n += gridDim.x) {
        const float* image = x + n * C * S;
        for (long long c = threadIdx.x / kWarpSize; c < C; c += warps) {
            float sum = 0.0f;
            for (long long i = lane; i < S; i += kWarpSize) sum += image[c * S + i];
            sum = warp_reduce_sum(sum);
            if (lane == 0) mean[c] = sum / S;
        }
        __syncthreads();
        small_product(w1, b1, mean, hidden, R, C, Hidden{silu});
        small_product(w2, b2, hidden, gate, C, R, Sigmoid());
        for (long long i = threadIdx.x; i < C * S; i += blockDim.x) {
            y[n * C * S + i] = image[i] * gate[i / S];
        }
        __syncthreads();  // the next image's means and gates go where these are still read
    }
}
