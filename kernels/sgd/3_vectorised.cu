// SGD step, rung 3 of 3: float4.
// The same bytes in a quarter of the requests. Tails, and tensors that start off a 16-byte
// boundary, go one by one.
//
// param, buffer [n] f32, changed in place, grad [n] f32; buffer null without momentum
// launch: grid (anything), block (anything)
// Counter: read global.grad bytes/lane = 16
// Counter: read global.* lanes/output = 0.75
// Counter: write global.* lanes/output = 0.5
// Counter: read global.grad sectors/request = 16
#include "lab.cuh"
#include "optimizer.cuh"

extern "C" __global__ void sgd_3_vectorised(float* __restrict__ param,
                                            const float* __restrict__ grad,
                                            float* __restrict__ buffer, long long n, Sgd options) {
    const bool aligned = is_aligned_for_float4(param) && is_aligned_for_float4(grad) &&
                         is_aligned_for_float4(buffer);  // null is
    const long long vectors = aligned ? n / 4 : 0;
    const bool has_buffer = buffer && !options.first;
    for (long long v = global_thread(); v < vectors; v += grid_threads()) {
        float4 p = reinterpret_cast<float4*>(param)[v];
        const float4 g = reinterpret_cast<const float4*>(grad)[v];
        float4 moved = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (has_buffer) moved = reinterpret_cast<float4*>(buffer)[v];
        p.x = sgd_step(p.x, g.x, moved.x, options);
        p.y = sgd_step(p.y, g.y, moved.y, options);
        p.z = sgd_step(p.z, g.z, moved.z, options);
        p.w = sgd_step(p.w, g.w, moved.w, options);
        reinterpret_cast<float4*>(param)[v] = p;
        if (buffer) reinterpret_cast<float4*>(buffer)[v] = moved;
    }
    for (long long i = vectors * 4 + global_thread(); i < n; i += grid_threads()) {
        float moved = has_buffer ? buffer[i] : 0.0f;
        param[i] = sgd_step(param[i], grad[i], moved, options);
        if (buffer) buffer[i] = moved;
    }
}
