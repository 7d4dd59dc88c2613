// Adam and AdamW step, rung 1 of 2: one launch, one element per thread.
// A dozen tensor operations in one pass: parameter, gradient and both moments are read once and
// written once; only the arithmetic in between differs between Adam, AdamW and amsgrad.
//
// param, mean, square, highest_square [n] f32, changed in place, grad [n] f32; highest_square null
// without amsgrad        launch: grid (anything), block (anything)
// Counter: read global.* lanes/output = 4
// Counter: write global.* lanes/output = 3
// Counter: read global.grad sectors/request = 4
#include "lab.cuh"
#include "optimizer.cuh"

extern "C" __global__ void adam_1_fused(float* __restrict__ param, const float* __restrict__ grad,
                                        float* __restrict__ mean, float* __restrict__ square,
                                        float* __restrict__ highest_square, long long n,
                                        Adam options) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        AdamState state = {mean[i], square[i], highest_square ? highest_square[i] : 0.0f};
        param[i] = adam_step(param[i], grad[i], state, options);
        mean[i] = state.mean;
        square[i] = state.square;
        if (highest_square) highest_square[i] = state.highest_square;
    }
}
