// out = a + alpha * b, rung 1 of 4: one element per thread.
// Neighbouring lanes touch neighbouring floats, so a warp's 32 loads fill 4 sectors exactly: there
// is nothing left to win in traffic, only in the number of requests.
//
// a, b, out [n] f32        launch: grid (ceil(n / 256)), block (256)
// Counter: read global.a sectors/request = 4
// Counter: write global.out sectors/request = 4
// Counter: read global.a bytes/lane = 4
#include "lab.cuh"

extern "C" __global__ void elementwise_1_scalar(const float* __restrict__ a,
                                                const float* __restrict__ b,
                                                float* __restrict__ out, float alpha, long long n) {
    const long long i = global_thread();
    if (i < n) out[i] = a[i] + alpha * b[i];
}
