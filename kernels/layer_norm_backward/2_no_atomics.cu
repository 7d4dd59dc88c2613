// Layer norm backward, rung 2 of 2: gamma's and beta's gradients go down the columns.
// dx as in rung 1. For dgamma and dbeta a second kernel gives each thread a column: a warp's 32
// lanes still read 32 neighbours, the sums stay in registers, and no atomic is left. To fill a
// device, `splits` blocks share the rows of a column and leave partial sums that a third adds up.
//
// dy, x, dx [rows, cols], gamma [cols] or null, mean, rstd [rows], all f32
// partial [2, splits, cols] f32, dgamma, dbeta [cols] f32 or null
// launch: grid (anything up to rows), block (whole warps)
// launch of weights: grid (ceil(cols / 32), splits), block (32, 8)
// launch of finish: grid (ceil(cols / 256)), block (256)
// Counter: atomic global.* lanes/input = 0
// Counter of weights: read global.dy sectors/request = 4
// Counter of weights: read global.dy lanes/input = 1
// Counter of weights: atomic global.* lanes/input = 0
#include "lab.cuh"
#include "pair.cuh"

extern "C" __global__ void layer_norm_backward_2_no_atomics(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ gamma,
    const float* __restrict__ mean, const float* __restrict__ rstd, float* __restrict__ dx,
    long long rows, long long cols) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long start = row * cols;
        const float row_mean = mean[row], row_rstd = rstd[row];

        Pair sums = {0.0f, 0.0f};  // of g, of g n
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float normal = (x[start + c] - row_mean) * row_rstd;
            const float g = dy[start + c] * (gamma ? gamma[c] : 1.0f);
            sums = AddPairs()(sums, {g, g * normal});
        }
        sums = block_all_reduce(sums, {0.0f, 0.0f}, AddPairs());
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float normal = (x[start + c] - row_mean) * row_rstd;
            const float g = dy[start + c] * (gamma ? gamma[c] : 1.0f);
            dx[start + c] = row_rstd * (g - sums.first / cols - normal * sums.second / cols);
        }
    }
}

extern "C" __global__ void layer_norm_backward_2_no_atomics_weights(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ mean,
    const float* __restrict__ rstd, float* __restrict__ partial, long long rows, long long cols) {
    __shared__ Pair part[8][32];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const long long c = blockIdx.x * 32LL + tx;

    Pair sums = {0.0f, 0.0f};  // of dy n, of dy
    if (c < cols) {
        for (long long row = blockIdx.y * 8LL + ty; row < rows; row += gridDim.y * 8LL) {
            const float gradient = dy[row * cols + c];
            const float normal = (x[row * cols + c] - mean[row]) * rstd[row];
            sums = AddPairs()(sums, {gradient * normal, gradient});
        }
    }
    part[ty][tx] = sums;
    __syncthreads();
    if (ty == 0 && c < cols) {
        for (int i = 1; i < 8; ++i) sums = AddPairs()(sums, part[i][tx]);
        const long long splits = gridDim.y;
        partial[blockIdx.y * cols + c] = sums.first;
        partial[(splits + blockIdx.y) * cols + c] = sums.second;
    }
}

extern "C" __global__ void layer_norm_backward_2_no_atomics_finish(
    const float* __restrict__ partial, float* __restrict__ dgamma, float* __restrict__ dbeta,
    int splits, long long cols) {
    const long long c = global_thread();
    if (c >= cols) return;
    Pair sums = {0.0f, 0.0f};
    for (long long s = 0; s < splits; ++s) {
        sums.first += partial[s * cols + c];
        sums.second += partial[(splits + s) * cols + c];
    }
    if (dgamma) dgamma[c] = sums.first;
    if (dbeta) dbeta[c] = sums.second;
}
