// Barriers that lie in memory (cuda::barrier): some of the threads arrive, and may wait later.
#include "executor.h"
#include "trace.h"

namespace cuemu {

uint32_t Executor::arrive(CuemuPhases& barrier, uint32_t count, bool drops, const void* site) {
    copies.wait(current->index, 0, true);  // the phase is not over before they are there
    if (launch->tracer) launch->tracer->arrives(*this, barrier, site);
    const uint32_t phase = barrier.phase;
    if (drops) --barrier.expected;
    if (count > barrier.left) {
        fail("barrier_count", std::to_string(count) + " arrive at a barrier that expects " + std::to_string(barrier.left) + " more",
             site);
    }
    barrier.left -= count;
    if (barrier.left == 0) {
        barrier.left = barrier.expected;
        ++barrier.phase;
        for (unsigned i = 0; i < thread_count; ++i) {
            Thread& thread = threads[order_[i]];
            if (thread.wait == Wait::kPhase && thread.value == reinterpret_cast<uint64_t>(&barrier)) make_ready(thread);
        }
    }
    return phase;
}

void Executor::wait_for(CuemuPhases& barrier, uint32_t phase, const void* site) {
    Thread& self = *current;
    self.site = site;
    if (barrier.phase == phase) {
        self.wait = Wait::kPhase;
        self.value = reinterpret_cast<uint64_t>(&barrier);
        wait_here();
    }
    if (launch->tracer) launch->tracer->waited(*this, barrier, phase);
}

}  // namespace cuemu

using cuemu::executor;

extern "C" {

uint32_t cuemu_block_arrive(CuemuPhases* barrier, uint32_t count, int drops) {
    return executor->arrive(*barrier, count, drops, __builtin_return_address(0));
}
void cuemu_block_wait(CuemuPhases* barrier, uint32_t phase) { executor->wait_for(*barrier, phase, __builtin_return_address(0)); }
}
