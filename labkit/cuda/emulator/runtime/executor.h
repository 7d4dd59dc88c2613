// Runs the threads of one block on one OS thread: who is running, who waits, who goes next.
#pragma once
#include <stdint.h>

#include <atomic>
#include <string>
#include <vector>

#include "../include/cuemu/abi.h"
#include "copies.h"
#include "fiber.h"

namespace cuemu {

struct Module;
class Tracer;
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kWarp = 32;

enum class Wait : uint8_t { kNone, kFresh, kReady, kBarrier, kWarpOp, kPhase, kDone };

struct Thread {
    Fiber* fiber;
    const void* site;  // where it waits, or last waited: a return address in the kernel
    uint3 idx;
    uint32_t index;  // linear in the block
    Wait wait;
    uint32_t mask;  // of the warp operation it waits in
    int op, width;
    uint32_t operand;
    uint64_t value, result;  // of a phase waited for: its barrier
    bool waits() const { return wait == Wait::kBarrier || wait == Wait::kWarpOp || wait == Wait::kPhase; }
    unsigned lane() const { return index % kWarp; }
    unsigned warp() const { return index / kWarp; }
};

struct Warp {
    uint32_t alive, waiting;
};

struct Failure {
    std::string kind, message;
    uint3 block{}, thread{};
    std::vector<const void*> sites;
    std::string details;  // JSON array, for a deadlock: who waits where
};

enum class Order : uint8_t { kForward, kReverse, kRandom };

struct Launch {
    Module* module;
    const CuemuKernel* kernel;
    dim3 grid, block;
    uint32_t shared_bytes;
    void** args;
    uint64_t parameters_low, parameters_high;  // addresses: where `args` point to
    Order order;
    uint64_t seed;
    bool cooperative = false;  // all blocks run at once, each on an OS thread of its own
    struct Gate* gate = nullptr;
    bool plain;  // nothing in the module can block and no tracer watches: threads run in a loop
    Tracer* tracer;
    uint64_t block_count;
    std::atomic<uint64_t> next_block{0};
    std::atomic<bool> failed{false};
    Failure failure;
};

class Executor {
   public:
    void run_block(Launch& launch, uint64_t linear_block);
    void fail(const char* kind, const std::string& message, const void* site);  // ends the block
    [[noreturn]] void abandon();
    void park();  // the running thread never goes on (it would fault), the others do
    void preempt();  // any other runnable thread first: the adversary's move

    int barrier(int kind, int predicate, const void* site);
    uint64_t warp_op(int op, uint32_t mask, uint64_t value, uint32_t operand, int width,
                     const void* site);
    uint32_t arrive(CuemuPhases& barrier, uint32_t count, bool drops, const void* site);
    void wait_for(CuemuPhases& barrier, uint32_t phase, const void* site);
    void yield();
    void grid_barrier(const void* site);

    Launch* launch = nullptr;
    Thread* current = nullptr;
    Thread threads[kMaxThreads];
    Warp warps[kMaxThreads / kWarp];
    unsigned thread_count = 0, warp_count = 0;
    uint64_t steps = 0;
    uint64_t block_linear = 0;
    Copies copies;
    std::string printed;
    uint64_t unprinted = 0;  // bytes of it that were not kept

   private:
    static void fiber_main();
    void run_fresh_threads();
    void run_one(Thread& thread);
    void finish(Thread& thread);
    void make_ready(Thread& thread);
    Fiber* next_fiber();
    void wait_here();
    void release_barrier();
    void complete_if_all_here(unsigned warp);
    bool release_gathered();
    void complete(unsigned warp, uint32_t lanes);
    bool whole_warp(unsigned warp, uint32_t lanes, const Thread& leader);
    void report_deadlock();
    void reset_fibers();
    void set_order();
    uint64_t random();

    void* main_sp_ = nullptr;
    Fiber* running_ = nullptr;
    std::vector<Fiber*> all_, idle_;
    uint16_t order_[kMaxThreads];
    uint16_t queue_[kMaxThreads];
    unsigned queued_ = 0, head_ = 0, fresh_ = 0, done_ = 0, arrived_ = 0, parked_ = 0;
    int all_of_ = 1, any_of_ = 0, count_of_ = 0, barrier_kind_ = 0, barrier_result_ = 0;
    uint64_t random_state_ = 0;
    dim3 indexed_for_{0, 0, 0};
};

extern thread_local Executor* executor;

}  // namespace cuemu
