// Layer norm backward, rung 1 of 2: one block per row, gamma's and beta's gradients by atomics.
// With n = (x - mean) rstd and g = dy gamma, the row's gradient is
// dx = rstd (g - mean of g - n (mean of g n)): two sums cross the block, as one pair. dgamma and
// dbeta are sums over rows, that is over blocks: two atomic additions per element.
//
// dy, x, dx [rows, cols], gamma, dgamma, dbeta [cols] or null, mean, rstd [rows], all f32; dgamma
// and dbeta zero before
// launch: grid (anything up to rows), block (whole warps)
// Counter: read global.x sectors/request = 4
// Counter: atomic global.* lanes/input = 2
#include "lab.cuh"
#include "pair.cuh"

extern "C" __global__ void layer_norm_backward_1_atomics(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ gamma,
    const float* __restrict__ mean, const float* __restrict__ rstd, float* __restrict__ dx,
    float* dgamma, float* dbeta, long long rows, long long cols) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long start = row * cols;
        const float row_mean = mean[row], row_rstd = rstd[row];

        Pair sums = {0.0f, 0.0f};  // of g, of g n
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float normal = (x[start + c] - row_mean) * row_rstd;
            const float g = dy[start + c] * (gamma ? gamma[c] : 1.0f);
            sums = AddPairs()(sums, {g, g * normal});
            if (dgamma) atomicAdd(&dgamma[c], dy[start + c] * normal);
            if (dbeta) atomicAdd(&dbeta[c], dy[start + c]);
        }
        sums = block_all_reduce(sums, {0.0f, 0.0f}, AddPairs());
        for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
            const float normal = (x[start + c] - row_mean) * row_rstd;
            const float g = dy[start + c] * (gamma ? gamma[c] : 1.0f);
            dx[start + c] = row_rstd * (g - sums.first / cols - normal * sums.second / cols);
        }
    }
}
