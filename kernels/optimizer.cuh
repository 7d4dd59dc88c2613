// One element's step of SGD and of Adam, as torch.optim defines them.
#pragma once
#include "lab.cuh"

struct Sgd {
    float lr, momentum, dampening, weight_decay;
    bool nesterov, maximize;
    bool first;  // no momentum buffer yet: it becomes the gradient, undamped
};

__device__ __forceinline__ float sgd_gradient(float param, float grad, Sgd o) {
    return (o.maximize ? -grad : grad) + o.weight_decay * param;
}

// The parameter after the step; `buffer`, which is not touched without momentum, moves as well.
__device__ __forceinline__ float sgd_step(float param, float grad, float& buffer, Sgd o) {
    const float gradient = sgd_gradient(param, grad, o);
    if (o.momentum == 0.0f) return param - o.lr * gradient;
    buffer = o.first ? gradient : o.momentum * buffer + (1.0f - o.dampening) * gradient;
    return param - o.lr * (o.nesterov ? gradient + o.momentum * buffer : buffer);
}

struct Adam {
    float lr, beta1, beta2, eps, weight_decay;
    float correction1, correction2;  // 1 - beta1^step and 1 - beta2^step: the host's, in double
    bool amsgrad, maximize;
    bool decoupled;  // AdamW: weight decay shrinks the parameter, not the gradient
};

struct AdamState {
    float mean, square, highest_square;  // exp_avg, exp_avg_sq, max_exp_avg_sq (with amsgrad)
};

__device__ __forceinline__ float adam_step(float param, float grad, AdamState& state, Adam o) {
    float gradient = o.maximize ? -grad : grad;
    if (o.decoupled) {
        param *= 1.0f - o.lr * o.weight_decay;
    } else {
        gradient += o.weight_decay * param;
    }
    state.mean += (1.0f - o.beta1) * (gradient - state.mean);
    state.square = o.beta2 * state.square + (1.0f - o.beta2) * gradient * gradient;
    state.highest_square = fmaxf(state.highest_square, state.square);
    const float square = o.amsgrad ? state.highest_square : state.square;
    const float scale = sqrtf(square) / sqrtf(o.correction2) + o.eps;
    return param - o.lr / o.correction1 * state.mean / scale;
}
