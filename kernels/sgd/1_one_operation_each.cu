// SGD step, rung 1 of 3: a launch per operation.
// As a chain of tensor operations would: the gradient with weight decay goes to memory, the
// momentum buffer takes it in, the parameter takes that in. Seven reads and three writes an
// element, for arithmetic that a multiprocessor does on the side.
//
// param, buffer [n] f32, changed in place, grad, scratch [n] f32; buffer null without momentum
// launch: grid (anything), block (anything), for each kernel: this, momentum, update
// Counter: read global.* lanes/output = 2
// Counter of momentum: read global.* lanes/output = 2
// Counter of update: read global.* lanes/output = 3
#include "lab.cuh"
#include "optimizer.cuh"

extern "C" __global__ void sgd_1_one_operation_each(const float* __restrict__ param,
                                                    const float* __restrict__ grad,
                                                    float* __restrict__ scratch, long long n,
                                                    Sgd options) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        scratch[i] = sgd_gradient(param[i], grad[i], options);
    }
}

extern "C" __global__ void sgd_1_one_operation_each_momentum(float* __restrict__ buffer,
                                                             const float* __restrict__ scratch,
                                                             long long n, Sgd options) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        const float gradient = scratch[i];
        buffer[i] = options.first
                        ? gradient
                        : options.momentum * buffer[i] + (1.0f - options.dampening) * gradient;
    }
}

extern "C" __global__ void sgd_1_one_operation_each_update(float* __restrict__ param,
                                                           const float* __restrict__ buffer,
                                                           const float* __restrict__ scratch,
                                                           long long n, Sgd options) {
    for (long long i = global_thread(); i < n; i += grid_threads()) {
        float direction = scratch[i];
        if (buffer) {
            const float moved = buffer[i];
            direction = options.nesterov ? direction + options.momentum * moved : moved;
        }
        param[i] -= options.lr * direction;
    }
}
