// Copies that are asked for and waited for (cp.async, memcpy_async), and barriers that lie in memory.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

__device__ __forceinline__ void copy_4(float* to, const float* from) {
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(place), "l"(from));
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void copied_waited_and_met(const float* x, float* y) {
    __shared__ float s[64];
    copy_4(&s[threadIdx.x], &x[threadIdx.x]);
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}

//: uninitialised 1 64 f:64 z:64
extern "C" __global__ void copied_and_not_waited_for(const float* x, float* y) {
    __shared__ float s[64];
    copy_4(&s[threadIdx.x], &x[threadIdx.x]);
    asm volatile("cp.async.commit_group;");
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];  // BUG
    asm volatile("cp.async.wait_group 0;");
}

//: race 1 64 f:64 z:64
extern "C" __global__ void waited_for_ones_own_copies_only(const float* x, float* y) {
    __shared__ float s[64];
    copy_4(&s[threadIdx.x], &x[threadIdx.x]);
    asm volatile("cp.async.wait_all;");
    y[threadIdx.x] = s[threadIdx.x ^ 32];  // BUG
}

//: clean 1 64 f:256 z:64 4
extern "C" __global__ void two_stages(const float* x, float* y, int rounds) {
    __shared__ float s[2][64];
    float sum = 0.0f;
    copy_4(&s[0][threadIdx.x], &x[threadIdx.x]);
    asm volatile("cp.async.commit_group;");
    for (int r = 0; r < rounds; ++r) {
        if (r + 1 < rounds) copy_4(&s[(r + 1) % 2][threadIdx.x], &x[(r + 1) * 64 + threadIdx.x]);
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        sum += s[r % 2][63 - threadIdx.x];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

//: uninitialised 1 64 f:256 z:64 4
extern "C" __global__ void two_stages_one_wait_too_weak(const float* x, float* y, int rounds) {
    __shared__ float s[2][64];
    float sum = 0.0f;
    for (int r = 0; r < rounds; ++r) {
        copy_4(&s[r % 2][threadIdx.x], &x[r * 64 + threadIdx.x]);
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        sum += s[r % 2][63 - threadIdx.x];  // BUG
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

//: out_of_bounds 1 64 f:64 z:64
extern "C" __global__ void copied_past_the_tile(const float* x, float* y) {
    __shared__ float s[63];
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(s));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(place + 4 * threadIdx.x), "l"(x + threadIdx.x));  // BUG
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x % 63];
}

//: misaligned 1 16 f:64 z:64
extern "C" __global__ void sixteen_bytes_from_an_odd_float(const float* x, float* y) {
    __shared__ __align__(16) float s[64];
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(s + 2 * threadIdx.x));
    float a, b, c, d;
    s[threadIdx.x * 4] = s[threadIdx.x * 4 + 1] = s[threadIdx.x * 4 + 2] = s[threadIdx.x * 4 + 3] = x[threadIdx.x];
    __syncwarp();
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(place));  // BUG
    y[threadIdx.x] = a + b + c + d;
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void arrive_and_wait(const float* x, float* y) {
    __shared__ Barrier bar;
    __shared__ float s[64];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    for (int r = 0; r < 3; ++r) {
        s[threadIdx.x] = x[threadIdx.x] + r;
        bar.arrive_and_wait();
        y[threadIdx.x] = s[63 - threadIdx.x];
        bar.arrive_and_wait();
    }
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void arrive_now_wait_later(const float* x, float* y) {
    __shared__ Barrier bar;
    __shared__ float s[64];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    s[threadIdx.x] = x[threadIdx.x];
    Barrier::arrival_token token = bar.arrive();
    const float own = x[threadIdx.x] * 2.0f;
    bar.wait(static_cast<Barrier::arrival_token&&>(token));
    y[threadIdx.x] = own + s[63 - threadIdx.x];
}

//: race 1 64 f:64 z:64
extern "C" __global__ void arrive_and_never_wait(const float* x, float* y) {
    __shared__ Barrier bar;
    __shared__ float s[64];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    s[threadIdx.x] = x[threadIdx.x];
    (void)bar.arrive();
    y[threadIdx.x] = s[63 - threadIdx.x];  // BUG
}

//: uninitialised 1 64 f:64 z:64
extern "C" __global__ void barrier_never_initialised(const float* x, float* y) {
    __shared__ Barrier bar;
    y[threadIdx.x] = x[threadIdx.x];
    (void)bar.arrive();  // BUG
}

//: race 1 64 z:64
extern "C" __global__ void barrier_initialised_unseen(float* y) {
    __shared__ Barrier bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    (void)bar.arrive();  // BUG
    y[threadIdx.x] = 1.0f;
}

//: deadlock 1 64 z:64
extern "C" __global__ void barrier_expects_one_more(float* y) {
    __shared__ Barrier bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x + 1);
    __syncthreads();
    bar.arrive_and_wait();  // BUG
    y[threadIdx.x] = 1.0f;
}

//: clean 1 64 f:64 z:32
extern "C" __global__ void producers_and_consumers(const float* x, float* y) {
    __shared__ Barrier full, empty;
    __shared__ float s[32];
    if (threadIdx.x == 0) init(&full, 64), init(&empty, 64);
    __syncthreads();
    const int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int r = 0; r < 2; ++r) {
        if (threadIdx.x < 32) {
            if (r) empty.arrive_and_wait();
            s[lane] = x[r * 32 + lane];
            (void)full.arrive();
        } else {
            full.arrive_and_wait();
            sum += s[31 - lane];
            if (!r) (void)empty.arrive();
        }
    }
    if (threadIdx.x >= 32) y[lane] = sum;
}

//: race 1 64 f:64 z:32
extern "C" __global__ void producer_does_not_wait_for_the_consumer(const float* x, float* y) {
    __shared__ Barrier full;
    __shared__ float s[32];
    if (threadIdx.x == 0) init(&full, 64);
    __syncthreads();
    const int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int r = 0; r < 2; ++r) {
        if (threadIdx.x < 32) {
            s[lane] = x[r * 32 + lane];  // BUG
            full.arrive_and_wait();
        } else {
            full.arrive_and_wait();
            sum += s[31 - lane];
        }
    }
    if (threadIdx.x >= 32) y[lane] = sum;
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void copied_by_the_whole_group(const float* x, float* y) {
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof(s));
    cg::wait(block);
    y[threadIdx.x] = s[63 - threadIdx.x];
}

//: uninitialised 1 64 f:64 z:64
extern "C" __global__ void group_syncs_and_does_not_wait(const float* x, float* y) {
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof(s));
    block.sync();
    y[threadIdx.x] = s[63 - threadIdx.x];  // BUG
    cg::wait(block);
}

//: out_of_bounds 1 64 f:60 z:64
extern "C" __global__ void group_copies_more_than_there_is(const float* x, float* y) {
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof(s));  // BUG
    cg::wait(block);
    y[threadIdx.x] = s[63 - threadIdx.x];
}

//: clean 1 64 f:64 z:64
extern "C" __global__ void copied_for_a_barrier(const float* x, float* y) {
    __shared__ Barrier bar;
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, s, x, sizeof(s), bar);
    bar.arrive_and_wait();
    y[threadIdx.x] = s[63 - threadIdx.x];
}

//: clean 1 64 f:256 z:64 4
extern "C" __global__ void pipeline_of_a_block(const float* x, float* y, int rounds) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ float s[2][64];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0.0f;
    for (int r = 0, asked = 0; r < rounds; ++r) {
        for (; asked < rounds && asked < r + 2; ++asked) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[asked % 2], x + 64 * asked, cuda::aligned_size_t<16>(sizeof(s[0])), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += s[r % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
    y[threadIdx.x] = sum;
}

//: race 1 64 f:64 z:64
extern "C" __global__ void pipeline_read_before_its_wait(const float* x, float* y) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    pipe.producer_acquire();
    cuda::memcpy_async(block, s, x, sizeof(s), pipe);
    pipe.producer_commit();
    y[threadIdx.x] = s[63 - threadIdx.x];  // BUG
    pipe.consumer_wait();
    pipe.consumer_release();
}

//: clean 1 64 f:128 z:64
extern "C" __global__ void pipeline_of_each_thread(const float* x, float* y) {
    __shared__ float s[2][64];
    auto pipe = cuda::make_pipeline();
    for (int stage = 0; stage < 2; ++stage) {
        pipe.producer_acquire();
        cuda::memcpy_async(&s[stage][threadIdx.x], &x[stage * 64 + threadIdx.x], sizeof(float), pipe);
        pipe.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    float sum = s[0][threadIdx.x];
    cuda::pipeline_consumer_wait_prior<0>(pipe);
    y[threadIdx.x] = sum + s[1][threadIdx.x];
}
