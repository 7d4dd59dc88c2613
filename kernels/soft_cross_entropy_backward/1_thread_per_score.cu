// Backward of cross-entropy with class probabilities, rung 1 of 1: one thread per score.
// The gradient of a score is its probability times what the row's targets weigh together, less
// weight and target of its own class. Forward has left each row's two sums, so scores do not depend
// on each other and threads go in memory's order.
//
// x, target, dx [N, C, inner] f32, weight [C] f32 or null, rows = N * inner
// log_sums, pulls [rows], dloss [rows], or [1] when reduced, f32; share: 1 / rows for the mean
// launch: grid (anything), block (anything)
// Counter: read global.x sectors/request = 4
// Counter: read global.target sectors/request = 4
// Counter: read global.pulls sectors/request = 1
// Counter: write global.dx sectors/request = 4
#include "lab.cuh"
#include "loss.cuh"

extern "C" __global__ void soft_cross_entropy_backward_1_thread_per_score(
    const float* __restrict__ dloss, const float* __restrict__ x,
    const float* __restrict__ target, const float* __restrict__ weight,
    const float* __restrict__ log_sums, const float* __restrict__ pulls, float* __restrict__ dx,
    long long rows, long long C, long long inner, bool reduced, float share, float smoothing) {
    for (long long i = global_thread(); i < rows * C; i += grid_threads()) {
        const long long c = i / inner % C, row = i / (C * inner) * inner + i % inner;
        const float probability = expf(x[i] - log_sums[row]);
        const float aim = soft_aim(target[i], weight, c, C, smoothing);
        dx[i] = dloss[reduced ? 0 : row] * share * (probability * pulls[row] - aim);
    }
}
