// Batch norm backward, rung 2 of 2: several blocks per channel, plane by plane, float4.
// As in the forward ladder: `splits` blocks share a channel's images and leave sums of dy and of
// dy n, a short kernel adds them up and folds everything into dx = a dy + b (x - mean) + d,
// and a third gives every plane a block. Rung 1's traffic, in a quarter of the requests, spread
// over the device.
//
// dy, x, dx [N, C, S], gamma [C] or null, mean, rstd, dgamma, dbeta [C], all f32
// partial [2, C, splits], factors [3, C] f32: a, b, d
// launch: grid (C, splits), block (whole warps)
// launch of finish: grid (ceil(C / 256)), block (256)
// launch of input: grid (anything up to N C), block (anything)
// Counter: read global.x lanes/output = 0.25
// Counter: read global.dy sectors/request = 16
// Counter: write global.partial lanes/block = 2
// Counter of input: read global.x lanes/output = 0.25
// Counter of input: write global.dx sectors/request = 16
#include "lab.cuh"
#include "pair.cuh"

__device__ __forceinline__ Pair with_element(Pair sums, float dy, float x, float mean, float rstd) {
    return {sums.first + dy, sums.second + dy * (x - mean) * rstd};
}

extern "C" __global__ void batch_norm_backward_2_split(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ mean,
    const float* __restrict__ rstd, float* __restrict__ partial, long long N, long long C,
    long long S) {
    const long long c = blockIdx.x;
    if (c >= C) return;  // uniform in the block
    const float m = mean[c], r = rstd[c];
    Pair sums = {0.0f, 0.0f};
    for (long long n = blockIdx.y; n < N; n += gridDim.y) {
        const float *dy_plane = dy + (n * C + c) * S, *x_plane = x + (n * C + c) * S;
        const bool aligned = is_aligned_for_float4(dy_plane) && is_aligned_for_float4(x_plane);
        const long long vectors = aligned ? S / 4 : 0;
        for (long long v = threadIdx.x; v < vectors; v += blockDim.x) {
            const float4 d = reinterpret_cast<const float4*>(dy_plane)[v];
            const float4 four = reinterpret_cast<const float4*>(x_plane)[v];
            sums = with_element(sums, d.x, four.x, m, r);
            sums = with_element(sums, d.y, four.y, m, r);
            sums = with_element(sums, d.z, four.z, m, r);
            sums = with_element(sums, d.w, four.w, m, r);
        }
        for (long long i = vectors * 4 + threadIdx.x; i < S; i += blockDim.x) {
            sums = with_element(sums, dy_plane[i], x_plane[i], m, r);
        }
    }
    sums = block_all_reduce(sums, {0.0f, 0.0f}, AddPairs());
    if (threadIdx.x == 0) {
        const long long at = c * gridDim.y + blockIdx.y;
        partial[at] = sums.first;
        partial[C * gridDim.y + at] = sums.second;
    }
}

extern "C" __global__ void batch_norm_backward_2_split_finish(
    const float* __restrict__ partial, const float* __restrict__ gamma,
    const float* __restrict__ mean, const float* __restrict__ rstd, float* __restrict__ dgamma,
    float* __restrict__ dbeta, float* __restrict__ factors, long long N, long long C, long long S,
    int splits, bool training) {
    const long long c = global_thread();
    if (c >= C) return;
    Pair sums = {0.0f, 0.0f};
    for (int s = 0; s < splits; ++s) {
        const long long at = c * splits + s;
        sums = AddPairs()(sums, {partial[at], partial[C * splits + at]});
    }
    dbeta[c] = sums.first;
    dgamma[c] = sums.second;
    const float scale = rstd[c] * (gamma ? gamma[c] : 1.0f);
    const float share = training ? 1.0f / (N * S) : 0.0f;
    factors[c] = scale;
    factors[C + c] = -scale * sums.second * share * rstd[c];
    factors[2 * C + c] = -scale * sums.first * share;
}

extern "C" __global__ void batch_norm_backward_2_split_input(
    const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ mean,
    const float* __restrict__ factors, float* __restrict__ dx, long long N, long long C,
    long long S) {
    for (long long plane = blockIdx.x; plane < N * C; plane += gridDim.x) {
        const long long c = plane % C, start = plane * S;
        const float a = factors[c], b = factors[C + c], d = factors[2 * C + c], m = mean[c];
        const bool aligned = is_aligned_for_float4(dy + start) &&
                             is_aligned_for_float4(x + start) && is_aligned_for_float4(dx + start);
        const long long vectors = aligned ? S / 4 : 0;  // uniform in the block
        for (long long v = threadIdx.x; v < vectors; v += blockDim.x) {
            const float4 g = reinterpret_cast<const float4*>(dy + start)[v];
            const float4 four = reinterpret_cast<const float4*>(x + start)[v];
            reinterpret_cast<float4*>(dx + start)[v] =
                make_float4(a * g.x + b * (four.x - m) + d, a * g.y + b * (four.y - m) + d,
                            a * g.z + b * (four.z - m) + d, a * g.w + b * (four.w - m) + d);
        }
        for (long long i = start + vectors * 4 + threadIdx.x; i < start + S; i += blockDim.x) {
            dx[i] = a * dy[i] + b * (x[i] - m) + d;
        }
    }
}
