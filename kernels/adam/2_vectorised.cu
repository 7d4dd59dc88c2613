// Adam and AdamW step, rung 2 of 2: float4.
// The same bytes in a quarter of the requests: five arrays at once keep many 16-byte loads on the
// way. Tails, and tensors that start off a 16-byte boundary, go one by one.
//
// param, mean, square, highest_square [n] f32, changed in place, grad [n] f32; highest_square null
// without amsgrad        launch: grid (anything), block (anything)
// Counter: read global.grad bytes/lane = 16
// Counter: read global.* lanes/output = 1
// Counter: write global.* lanes/output = 0.75
// Counter: read global.grad sectors/request = 16
#include "lab.cuh"
#include "optimizer.cuh"

__device__ __forceinline__ void step_at(float& param, float grad, float& mean, float& square,
                                        float& highest_square, Adam options) {
    AdamState state = {mean, square, highest_square};
    param = adam_step(param, grad, state, options);
    mean = state.mean;
    square = state.square;
    highest_square = state.highest_square;
}

extern "C" __global__ void adam_2_vectorised(float* __restrict__ param,
                                             const float* __restrict__ grad,
                                             float* __restrict__ mean, float* __restrict__ square,
                                             float* __restrict__ highest_square, long long n,
                                             Adam options) {
    const bool aligned = is_aligned_for_float4(param) && is_aligned_for_float4(grad) &&
                         is_aligned_for_float4(mean) && is_aligned_for_float4(square) &&
                         is_aligned_for_float4(highest_square);  // null is
    const long long vectors = aligned ? n / 4 : 0;
    for (long long v = global_thread(); v < vectors; v += grid_threads()) {
        float4 p = reinterpret_cast<float4*>(param)[v], m = reinterpret_cast<float4*>(mean)[v];
        float4 s = reinterpret_cast<float4*>(square)[v], h = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (highest_square) h = reinterpret_cast<float4*>(highest_square)[v];
        const float4 g = reinterpret_cast<const float4*>(grad)[v];
        step_at(p.x, g.x, m.x, s.x, h.x, options);
        step_at(p.y, g.y, m.y, s.y, h.y, options);
        step_at(p.z, g.z, m.z, s.z, h.z, options);
        step_at(p.w, g.w, m.w, s.w, h.w, options);
        reinterpret_cast<float4*>(param)[v] = p;
        reinterpret_cast<float4*>(mean)[v] = m;
        reinterpret_cast<float4*>(square)[v] = s;
        if (highest_square) reinterpret_cast<float4*>(highest_square)[v] = h;
    }
    for (long long i = vectors * 4 + global_thread(); i < n; i += grid_threads()) {
        float highest = highest_square ? highest_square[i] : 0.0f;
        step_at(param[i], grad[i], mean[i], square[i], highest, options);
        if (highest_square) highest_square[i] = highest;
    }
}
