// Cross-entropy backward, rung 1 of 2: one thread per row.
// The gradient of a score is its probability, less one at the target. Forward has left the
// logarithm of each row's sum, so one pass is enough; but each thread walks its own row, and the
// rows of a warp lie C scores apart: 32 sectors a request, reading and writing.
//
// x, dx [N, C, inner] f32, target [N, inner] i64, weight [C] f32 or null, rows = N * inner
// log_sums [rows], dloss [rows], or [1] when reduced, f32
// weights_total [1] f32 for the mean, else null        launch: grid (ceil(rows / 256)), block (256)
// Counter: read global.x sectors/request = 32
// Counter: write global.dx sectors/request = 32
#include "lab.cuh"
#include "loss.cuh"

extern "C" __global__ void cross_entropy_backward_1_thread_per_row(
    const float* __restrict__ dloss, const float* __restrict__ x,
    const long long* __restrict__ target, const float* __restrict__ weight,
    const float* __restrict__ log_sums, const float* __restrict__ weights_total,
    float* __restrict__ dx, long long rows, long long C, long long inner, bool reduced, Loss loss) {
    const long long row = global_thread();
    if (row >= rows) return;
    const long long start = row_start(row, C, inner), row_target = target[row];
    const float row_weight = target_weight(row_target, weight, C, loss);
    const bool counts = row_target != loss.ignore_index;
    const float scale = dloss[reduced ? 0 : row] / (weights_total ? *weights_total : 1.0f);

    for (long long c = 0; c < C; ++c) {
        const float gradient =
            score_gradient(x[start + c * inner], log_sums[row], c == row_target, row_weight,
                           weight ? weight[c] : 1.0f, C, loss);
        dx[start + c * inner] = counts ? scale * gradient : 0.0f;
    }
}
