// Cross-entropy backward, rung 2 of 2: one thread per score.
// With the row's sum known, scores do not depend on each other: threads go in memory's order, 4
// sectors a request. A row's target and sum are read by all its threads, which is one sector for
// a warp that lies within a row.
//
// x, dx [N, C, inner] f32, target [N, inner] i64, weight [C] f32 or null, rows = N * inner
// log_sums [rows], dloss [rows], or [1] when reduced, f32
// weights_total [1] f32 for the mean, else null        launch: grid (anything), block (anything)
// Counter: read global.x sectors/request = 4
// Counter: write global.dx sectors/request = 4
// Counter: read global.log_sums sectors/request = 1
#include "lab.cuh"
#include "loss.cuh"

extern "C" __global__ void cross_entropy_backward_2_thread_per_score(
    const float* __restrict__ dloss, const float* __restrict__ x,
    const long long* __restrict__ target, const float* __restrict__ weight,
    const float* __restrict__ log_sums, const float* __restrict__ weights_total,
    float* __restrict__ dx, long long rows, long long C, long long inner, bool reduced, Loss loss) {
    for (long long i = global_thread(); i < rows * C; i += grid_threads()) {
        const long long c = i / inner % C, row = i / (C * inner) * inner + i % inner;
        const long long row_target = target[row];
        const float row_weight = target_weight(row_target, weight, C, loss);
        const float gradient = score_gradient(x[i], log_sums[row], c == row_target, row_weight,
                                              weight ? weight[c] : 1.0f, C, loss);
        const float scale = dloss[reduced ? 0 : row] / (weights_total ? *weights_total : 1.0f);
        dx[i] = row_target != loss.ignore_index ? scale * gradient : 0.0f;
    }
}
