// Layer norm, rung 4 of 4: the row waits in registers.
// A thread keeps the float4s it has read, up to four of them, from the mean to the result: rows of
// up to 16 floats a thread are read once and written once, the least any layer norm can do. With
// the row at hand the variance is taken around the mean, as in rung 2, at no traffic at all. Longer
// rows, and rows that start off a 16-byte boundary, are read again.
//
// x, y [rows, cols], gamma, beta [cols] or null, mean, rstd [rows], all f32
// launch: grid (anything up to rows), block (whole warps)
// Counter: read global.x sectors/request = 16
// Counter: read global.x lanes/output = 0.25
// Counter: write global.y lanes/output = 0.25
#include "lab.cuh"

constexpr int kKept = 4;

__device__ __forceinline__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }

__device__ __forceinline__ float squares_around(float4 v, float mean) {
    const float4 d = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
    return (d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w);
}

__device__ __forceinline__ float normal(float x, long long c, const float* gamma,
                                        const float* beta, float mean, float rstd) {
    return (x - mean) * rstd * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f);
}

extern "C" __global__ void layer_norm_4_in_registers(
    const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
    float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, long long rows,
    long long cols, float eps) {
    const float4 zeros = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const long long threads = blockDim.x;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* x_row = x + row * cols;
        float* y_row = y + row * cols;
        const bool aligned = is_aligned_for_float4(x_row) && is_aligned_for_float4(y_row);
        const long long vectors = aligned ? min(cols / 4, kKept * threads) : 0;
        const long long rest = vectors * 4;  // from here on, float by float

        float4 kept[kKept];
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < kKept; ++k) {
            const long long v = threadIdx.x + k * threads;
            kept[k] = v < vectors ? reinterpret_cast<const float4*>(x_row)[v] : zeros;
            sum += sum_of(kept[k]);
        }
        for (long long c = rest + threadIdx.x; c < cols; c += threads) sum += x_row[c];
        const float row_mean = block_all_reduce(sum, 0.0f, Add()) / cols;

        float squares = 0.0f;
#pragma unroll
        for (int k = 0; k < kKept; ++k) {
            const long long v = threadIdx.x + k * threads;
            if (v < vectors) squares += squares_around(kept[k], row_mean);
        }
        for (long long c = rest + threadIdx.x; c < cols; c += threads) {
            squares += (x_row[c] - row_mean) * (x_row[c] - row_mean);
        }
        const float row_rstd = rsqrtf(block_all_reduce(squares, 0.0f, Add()) / cols + eps);

#pragma unroll
        for (int k = 0; k < kKept; ++k) {
            const long long v = threadIdx.x + k * threads, c = 4 * v;
            if (v >= vectors) continue;
            reinterpret_cast<float4*>(y_row)[v] =
                make_float4(normal(kept[k].x, c, gamma, beta, row_mean, row_rstd),
                            normal(kept[k].y, c + 1, gamma, beta, row_mean, row_rstd),
                            normal(kept[k].z, c + 2, gamma, beta, row_mean, row_rstd),
                            normal(kept[k].w, c + 3, gamma, beta, row_mean, row_rstd));
        }
        for (long long c = rest + threadIdx.x; c < cols; c += threads) {
            y_row[c] = normal(x_row[c], c, gamma, beta, row_mean, row_rstd);
        }
        if (threadIdx.x == 0) {
            mean[row] = row_mean;
            rstd[row] = row_rstd;
        }
    }
}
