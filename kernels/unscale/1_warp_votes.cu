// Unscale and check, rung 1 of 1: a warp votes, and one lane raises the flag.
// The flag and the factor stay on the device, so the host waits for neither. Every lane that saw an
// inf or a NaN could write the flag itself; after a vote it is one write a warp, and none where all
// is well.
//
// grad [n] f32, changed in place, found_inf [1], inv_scale [1] f32
// launch: grid (anything), block (whole warps). This kernel: f32. Others: half, bfloat16 gradients.
// launch of update: grid (1), block (1); scale [1] f32, growth_tracker [1] i32, changed in place
// Counter: read global.grad sectors/request = 4
// Counter: write global.grad sectors/request = 4
// Counter: atomic global.found_inf lanes/input = 0
#include "lab.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T>
__device__ __forceinline__ void unscale(T* grad, float* found_inf, const float* inv_scale,
                                        long long n) {
    const float factor = *inv_scale;
    bool broken = false;
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const float value = static_cast<float>(grad[i]);
        broken |= !isfinite(value);
        grad[i] = static_cast<T>(factor == 1.0f ? value : value * factor);
    }
    const bool any = __any_sync(0xffffffffu, broken);  // all 32 lanes come here, also past the end
    if (any && threadIdx.x % kWarpSize == 0) atomicExch(found_inf, 1.0f);
}

extern "C" __global__ void unscale_1_warp_votes(float* __restrict__ grad,
                                                float* __restrict__ found_inf,
                                                const float* __restrict__ inv_scale, long long n) {
    unscale(grad, found_inf, inv_scale, n);
}

extern "C" __global__ void unscale_1_warp_votes_half(__half* __restrict__ grad,
                                                     float* __restrict__ found_inf,
                                                     const float* __restrict__ inv_scale,
                                                     long long n) {
    unscale(grad, found_inf, inv_scale, n);
}

extern "C" __global__ void unscale_1_warp_votes_bfloat16(__nv_bfloat16* __restrict__ grad,
                                                         float* __restrict__ found_inf,
                                                         const float* __restrict__ inv_scale,
                                                         long long n) {
    unscale(grad, found_inf, inv_scale, n);
}

extern "C" __global__ void unscale_1_warp_votes_update(float* __restrict__ scale,
                                                       int* __restrict__ growth_tracker,
                                                       const float* __restrict__ found_inf,
                                                       double growth_factor, double backoff_factor,
                                                       int growth_interval) {
    if (*found_inf != 0.0f) {
        *scale = static_cast<float>(*scale * backoff_factor);
        *growth_tracker = 0;
        return;
    }
    int successful = *growth_tracker + 1;
    if (successful == growth_interval) {
        const float grown = static_cast<float>(*scale * growth_factor);
        if (isfinite(grown)) *scale = grown;
        successful = 0;
    }
    *growth_tracker = successful;
}
