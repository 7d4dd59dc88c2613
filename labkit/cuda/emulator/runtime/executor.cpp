#include "executor.h"

#include <string.h>

#include "json.h"
#include "module.h"
#include "trace.h"

namespace cuemu {

thread_local Executor* executor = nullptr;

uint64_t Executor::random() {  // splitmix64: any seed will do, and the same seed repeats
    uint64_t z = (random_state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void Executor::set_order() {
    for (unsigned i = 0; i < thread_count; ++i) {
        order_[i] = static_cast<uint16_t>(launch->order == Order::kReverse ? thread_count - 1 - i : i);
    }
    if (launch->order == Order::kRandom) {
        random_state_ = launch->seed * 0x2545f4914f6cdd1dull + block_linear;
        for (unsigned i = thread_count; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
    }
}

void Executor::run_block(Launch& the_launch, uint64_t linear_block) {
    launch = &the_launch;
    block_linear = linear_block;
    const dim3 extent = launch->block;
    const uint64_t plane = static_cast<uint64_t>(launch->grid.x) * launch->grid.y;
    cuemu_state.block_dim = extent;
    cuemu_state.grid_dim = launch->grid;
    cuemu_state.block_idx = {static_cast<unsigned>(linear_block % launch->grid.x),
                             static_cast<unsigned>(linear_block % plane / launch->grid.x),
                             static_cast<unsigned>(linear_block / plane)};
    thread_count = extent.x * extent.y * extent.z;
    launch->module->poison_shared(launch->shared_bytes);
    copies.block_begins();
    if (!launch->plain) {
        if (memcmp(&indexed_for_, &extent, sizeof(extent)) != 0) {
            for (unsigned t = 0; t < thread_count; ++t) {
                threads[t].index = t;
                threads[t].idx = {t % extent.x, t / extent.x % extent.y, t / extent.x / extent.y};
            }
            indexed_for_ = extent;
        }
        warp_count = (thread_count + kWarp - 1) / kWarp;
        for (unsigned t = 0; t < thread_count; ++t) threads[t].wait = Wait::kFresh;
        for (unsigned w = 0; w < warp_count; ++w) {
            const unsigned lanes = thread_count - w * kWarp;
            warps[w] = {lanes >= kWarp ? ~0u : (1u << lanes) - 1, 0};
        }
        set_order();
        queued_ = head_ = fresh_ = done_ = arrived_ = parked_ = 0;
        all_of_ = 1, any_of_ = count_of_ = 0;
    }
    if (launch->tracer) launch->tracer->block_begins(*this);
    running_ = nullptr;
    if (idle_.empty()) {
        all_.push_back(new_fiber(static_cast<unsigned>(all_.size())));
        all_.back()->start(fiber_main);
        idle_.push_back(all_.back());
    }
    running_ = idle_.back();
    idle_.pop_back();
    cuemu_switch(&main_sp_, running_->sp);
    if (!launch->plain && !launch->failed && done_ < thread_count) report_deadlock();
    if (idle_.size() != all_.size()) reset_fibers();
    if (launch->tracer) launch->tracer->block_ends(*this);
    current = nullptr;
}

void Executor::fiber_main() {
    Executor& e = *executor;
    for (;;) {
        Fiber* self = e.running_;
        if (e.launch->plain) {
            e.launch->kernel->block(e.launch->args);
            e.idle_.push_back(self);
            cuemu_switch(&self->sp, e.main_sp_);
            continue;
        }
        e.run_fresh_threads();
        e.idle_.push_back(self);
        Fiber* next = e.next_fiber();
        e.running_ = next;
        cuemu_switch(&self->sp, next ? next->sp : e.main_sp_);
    }
}

void Executor::run_fresh_threads() {
    while (fresh_ < thread_count) run_one(threads[order_[fresh_++]]);
}

void Executor::run_one(Thread& thread) {
    thread.fiber = running_;
    thread.wait = Wait::kNone;
    current = &thread;
    cuemu_state.thread_idx = thread.idx;
    if (launch->tracer) launch->tracer->thread_begins(thread);
    launch->kernel->thread(launch->args);
    finish(threads[thread.index]);
}

void Executor::finish(Thread& thread) {
    thread.wait = Wait::kDone;
    ++done_;
    const unsigned w = thread.warp();
    warps[w].alive &= ~(1u << thread.lane());
    if (launch->tracer) launch->tracer->thread_ends(*this, thread);
    if (warps[w].waiting) complete_if_all_here(w);
    if (arrived_ && arrived_ + done_ == thread_count) release_barrier();
}

void Executor::park() {
    current->wait = Wait::kDone;
    ++parked_;
    finish(*current);
    Fiber* next = next_fiber();
    Fiber* self = running_;
    running_ = next;
    cuemu_switch(&self->sp, next ? next->sp : main_sp_);
    __builtin_unreachable();
}

void Executor::make_ready(Thread& thread) {
    thread.wait = Wait::kReady;
    queue_[(head_ + queued_++) % kMaxThreads] = static_cast<uint16_t>(thread.index);
}

Fiber* Executor::next_fiber() {
    const bool random_order = launch->order == Order::kRandom;
    if (fresh_ < thread_count && !(random_order && queued_ && random() % 2)) {
        if (idle_.empty()) {
            all_.push_back(new_fiber(static_cast<unsigned>(all_.size())));
            all_.back()->start(fiber_main);
            return all_.back();
        }
        Fiber* fiber = idle_.back();
        idle_.pop_back();
        return fiber;
    }
    if (queued_ == 0 && !release_gathered()) return nullptr;
    if (random_order) {
        std::swap(queue_[head_], queue_[(head_ + random() % queued_) % kMaxThreads]);
    }
    const unsigned chosen = queue_[head_];
    head_ = (head_ + 1) % kMaxThreads;
    --queued_;
    if (queued_ > 1) {  // a thousand stacks do not fit the first cache: ask for the one after early
        const Thread& after = threads[queue_[(head_ + 1) % kMaxThreads]];
        const char* frames = static_cast<const char*>(after.fiber->sp);
        for (int line = 0; line < 4; ++line) __builtin_prefetch(frames + 64 * line);
    }
    threads[chosen].wait = Wait::kNone;
    return threads[chosen].fiber;
}

void Executor::wait_here() {
    Thread* self = current;
    Fiber* fiber = running_;
    Fiber* next = next_fiber();
    if (next != fiber) {
        running_ = next;
        cuemu_switch(&fiber->sp, next ? next->sp : main_sp_);
    }
    running_ = fiber;
    current = self;
    cuemu_state.thread_idx = self->idx;
}

void Executor::yield() {
    if (launch->plain) return;
    make_ready(*current);
    wait_here();
}

void Executor::preempt() { yield(); }

int Executor::barrier(int kind, int predicate, const void* site) {
    Thread& self = *current;
    self.site = site;
    self.wait = Wait::kBarrier;
    all_of_ &= predicate;
    any_of_ |= predicate;
    count_of_ += predicate;
    barrier_kind_ = kind;
    if (++arrived_ + done_ == thread_count) release_barrier();
    wait_here();
    return barrier_result_;
}

void Executor::release_barrier() {
    if (launch->tracer) launch->tracer->barrier_completes(*this, arrived_);
    barrier_result_ = barrier_kind_ == CUEMU_AND ? all_of_ : barrier_kind_ == CUEMU_OR ? any_of_ : count_of_;
    all_of_ = 1, any_of_ = count_of_ = 0;
    arrived_ = 0;
    for (unsigned i = 0; i < thread_count; ++i) {
        Thread& thread = threads[order_[i]];
        if (thread.wait == Wait::kBarrier) make_ready(thread);
    }
}

void Executor::report_deadlock() {
    Json details;
    details.begin('[');
    const void* first_site = nullptr;
    uint3 first_thread{};
    for (unsigned t = 0; t < thread_count; ++t) {
        const Thread& thread = threads[t];
        if (!thread.waits()) continue;
        if (!first_site) first_site = thread.site, first_thread = thread.idx;
        details.begin('{');
        details.field("thread", thread.idx);
        details.field("site", launch->module->offset(thread.site));
        details.field("waits_for", thread.wait == Wait::kBarrier  ? "__syncthreads"
                                   : thread.wait == Wait::kPhase ? "a phase of its barrier"
                                                                 : "warp operation");
        details.field("mask", static_cast<uint64_t>(thread.wait == Wait::kWarpOp ? thread.mask : 0));
        details.end('}');
    }
    details.end(']');
    if (launch->tracer) {
        launch->tracer->deadlock(*this, details.text);
        return;
    }
    if (launch->failed.exchange(true)) return;
    launch->failure = {"deadlock", "every thread that is left waits for one that never comes",
                       cuemu_state.block_idx, first_thread, {first_site}, details.text};
}

void Executor::reset_fibers() {  // threads that were cut short left frames behind
    idle_.clear();
    for (Fiber* fiber : all_) {
        fiber->start(fiber_main);
        idle_.push_back(fiber);
    }
}

void Executor::fail(const char* kind, const std::string& message, const void* site) {
    if (!launch->failed.exchange(true)) {
        launch->failure = {kind, message, cuemu_state.block_idx, cuemu_state.thread_idx, {site}, ""};
    }
    abandon();
}

void Executor::abandon() {
    void* nowhere;
    cuemu_switch(&nowhere, main_sp_);
    __builtin_unreachable();
}

}  // namespace cuemu
