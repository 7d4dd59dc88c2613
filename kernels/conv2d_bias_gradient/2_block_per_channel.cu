// 2-D convolution's gradient for the bias, rung 2 of 2: one block per channel.
// Lanes are neighbours in a plane: 4 sectors a request, all of their bytes used, where rung 1
// opened 32. The block's sums meet in shuffles.
//
// dy [N, K, P, Q]  ->  db [K]        launch: grid (K), block (256)
// This kernel: f32. Others: half, bfloat16, widened as they are read; the sums are f32, and a
// result is rounded once.
// Counter: read global.dy sectors/request = 4
// Counter: write global.db lanes/block = 1
// Counter of bfloat16: read global.dy sectors/request = 2
// Counter of bfloat16: write global.db lanes/block = 1
#include "conv.cuh"

template <class T>
__device__ __forceinline__ void bias_gradient(const T* __restrict__ dy, T* __restrict__ db,
                                              Conv2d conv) {
    const long long k = blockIdx.x, plane = conv.out_plane();
    float sum = 0.0f;
    for (long long n = 0; n < conv.batch; ++n) {
        const T* from = dy + conv.y_plane(n, k);
        for (long long i = threadIdx.x; i < plane; i += blockDim.x) {
            sum += static_cast<float>(from[i]);
        }
    }
    sum = block_reduce_sum(sum);
    if (threadIdx.x == 0) db[k] = T(sum);
}

extern "C" __global__ void conv2d_bias_gradient_2_block_per_channel(const float* __restrict__ dy,
                                                                    float* __restrict__ db,
                                                                    Conv2d conv) {
    bias_gradient(dy, db, conv);
}

extern "C" __global__ void conv2d_bias_gradient_2_block_per_channel_half(
    const __half* __restrict__ dy, __half* __restrict__ db, Conv2d conv) {
    bias_gradient(dy, db, conv);
}

extern "C" __global__ void conv2d_bias_gradient_2_block_per_channel_bfloat16(
    const __nv_bfloat16* __restrict__ dy, __nv_bfloat16* __restrict__ db, Conv2d conv) {
    bias_gradient(dy, db, conv);
}
