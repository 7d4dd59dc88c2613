// 2-D convolution's gradient for the bias, rung 1 of 2: one thread per channel.
// A bias was added to every output of its channel, so its gradient is the sum of their gradients.
// Lanes walk through different planes: 32 lanes, 32 sectors, of which 28 bytes each are wasted.
//
// dy [N, K, P, Q]  ->  db [K] f32        launch: grid (ceil(K / 256)), block (256)
// Counter: read global.dy sectors/request = 32
#include "conv.cuh"

extern "C" __global__ void conv2d_bias_gradient_1_thread_per_channel(const float* __restrict__ dy,
                                                                     float* __restrict__ db,
                                                                     Conv2d conv) {
    const long long k = global_thread();
    if (k >= conv.out_channels) return;
    float sum = 0.0f;
    for (long long n = 0; n < conv.batch; ++n) {
        const float* plane = dy + conv.y_plane(n, k);
        for (long long i = 0; i < conv.out_plane(); ++i) sum += plane[i];
    }
    db[k] = sum;
}
