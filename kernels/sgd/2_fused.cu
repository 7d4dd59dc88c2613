// SGD step, rung 2 of 3: one launch.
// Everything between reading and writing stays in registers: three reads and two writes an element,
// where rung 1 had seven and three. Time follows bytes, so this is the whole gain.
//
// param, buffer [n] f32, changed in place, grad [n] f32; buffer null without momentum
// launch: grid (anything), block (anything)
// Counter: read global.* lanes/output = 3
// Counter: write global.* lanes/output = 2
// Counter: read global.grad sectors/request = 4
#include "lab.cuh"
#include "optimizer.cuh"

extern "C" __global__ void sgd_2_fused(float* __restrict__ param, const float* __restrict__ grad,
                                       float* __restrict__ buffer, long long n, Sgd options) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        float moved = buffer && !options.first ? buffer[i] : 0.0f;
        param[i] = sgd_step(param[i], grad[i], moved, options);
        if (buffer) buffer[i] = moved;
    }
}
