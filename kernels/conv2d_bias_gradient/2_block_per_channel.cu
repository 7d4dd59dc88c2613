// 2-D convolution's gradient for the bias, rung 2 of 2: one block per channel.
// Lanes are neighbours in a plane: 4 sectors a request, all of their bytes used, where rung 1
// opened 32. The block's sums meet in shuffles.
//
// dy [N, K, P, Q]  ->  db [K] f32        launch: grid (K), block (256)
// Counter: read global.dy sectors/request = 4
// Counter: write global.db lanes/block = 1
#include "conv.cuh"

extern "C" __global__ void conv2d_bias_gradient_2_block_per_channel(const float* __restrict__ dy,
                                                                    float* __restrict__ db,
                                                                    Conv2d conv) {
    const long long k = blockIdx.x, plane = conv.out_plane();
    float sum = 0.0f;
    for (long long n = 0; n < conv.batch; ++n) {
        const float* from = dy + conv.y_plane(n, k);
        for (long long i = threadIdx.x; i < plane; i += blockDim.x) sum += from[i];
    }
    sum = block_reduce_sum(sum);
    if (threadIdx.x == 0) db[k] = sum;
}
