// Barriers that not everyone reaches, and warp operations that not everyone is in.

//: barrier_divergence 1 64 f:64 z:64
extern "C" __global__ void barrier_inside_a_branch(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 32) {
        __syncthreads();  // BUG
        y[threadIdx.x] = s[threadIdx.x];
    }
}

//: barrier_divergence 1 64 f:64 z:64 50
extern "C" __global__ void return_before_barrier(const float* x, float* y, int n) {
    __shared__ float s[64];
    if (threadIdx.x >= n) return;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();  // BUG
    y[threadIdx.x] = s[threadIdx.x];
}

//: barrier_divergence 1 64 f:64 z:64
extern "C" __global__ void two_different_barriers(const float* x, float* y) {
    if (threadIdx.x < 32) {
        y[threadIdx.x] = x[threadIdx.x];
        __syncthreads();  // BUG
    } else {
        y[threadIdx.x] = 0.0f;
        __syncthreads();
    }
}

//: barrier_divergence 1 64 z:64
extern "C" __global__ void unequal_rounds(float* y) {
    for (unsigned r = 0; r < 1 + threadIdx.x / 32; ++r) {
        y[threadIdx.x] += 1.0f;
        __syncthreads();  // BUG
    }
}

//: barrier_divergence 1 64 f:64 z:64
extern "C" __global__ void break_out_of_the_loop(const float* x, float* y) {
    for (int r = 0; r < 4; ++r) {
        if (threadIdx.x == 17 && r == 2) break;
        y[threadIdx.x] = x[threadIdx.x];
        __syncthreads();  // BUG
    }
}

//: deadlock 1 64 z:64
extern "C" __global__ void half_waits_for_the_block_half_for_the_warp(float* y) {
    if (threadIdx.x % 2 == 0) {
        __syncthreads();  // BUG
    } else {
        __syncwarp();
    }
    y[threadIdx.x] = 1.0f;
}

//: deadlock 1 32 z:32
extern "C" __global__ void mask_names_lanes_elsewhere(float* y) {
    float v = threadIdx.x;
    if (threadIdx.x < 16) {
        v = __shfl_sync(0xffffffffu, v, 0);  // BUG
    } else {
        __syncthreads();
    }
    y[threadIdx.x] = v;
}

//: deadlock 1 32 z:32
extern "C" __global__ void masks_disagree(float* y) {
    const unsigned mask = threadIdx.x < 8 ? 0x0000ffffu : 0xffffffffu;
    y[threadIdx.x] = __any_sync(mask, threadIdx.x == 3);  // BUG
}

//: shuffle 1 32 f:32 z:32 20
extern "C" __global__ void shuffle_from_the_departed(const float* x, float* y, int n) {
    if (threadIdx.x >= n) return;
    float v = x[threadIdx.x];
    v += __shfl_down_sync(0xffffffffu, v, 16);  // BUG
    y[threadIdx.x] = v;
}

//: shuffle 1 48 f:48 z:48
extern "C" __global__ void reduction_over_half_a_warp(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, step);  // BUG
    }
    y[threadIdx.x] = v;
}

//: shuffle 1 32 f:32 z:32
extern "C" __global__ void source_not_in_the_mask(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x < 8) {
        v = __shfl_sync(0x000000ffu, v, 8);  // BUG
    }
    y[threadIdx.x] = v;
}

//: warp_mask 1 32 z:32
extern "C" __global__ void caller_not_in_its_mask(unsigned* y) {
    if (threadIdx.x < 17) {
        y[threadIdx.x] = __ballot_sync(0x0000ffffu, 1);  // BUG
    }
}

//: assert 1 32 i:32 z:32
extern "C" __global__ void asserts_the_wrong_thing(const int* x, int* y) {
    assert(x[threadIdx.x] < 31);  // BUG
    y[threadIdx.x] = x[threadIdx.x];
}

//: trap 1 32 i:32
extern "C" __global__ void gives_up(const int* x) {
    if (x[threadIdx.x] == 9) __trap();  // BUG
}
