// Warp-wide operations: each lane deposits its operands, the last one computes for all.
#include <stdio.h>

#include "executor.h"
#include "module.h"
#include "trace.h"

namespace cuemu {

namespace {

constexpr uint64_t kUndefined = ~0ull;  // what the hardware leaves unsaid must not look right

unsigned shuffle_source(const Thread& lane_thread) {
    const unsigned lane = lane_thread.lane();
    const unsigned width = static_cast<unsigned>(lane_thread.width);
    const unsigned first = lane & ~(width - 1), last = first + width - 1;
    const unsigned operand = lane_thread.operand;
    switch (lane_thread.op) {
        case CUEMU_SHFL_IDX: return first | (operand & (width - 1));
        case CUEMU_SHFL_UP: return operand > lane - first ? lane : lane - operand;
        case CUEMU_SHFL_DOWN: return operand > last - lane ? lane : lane + operand;
        default: {
            const unsigned source = lane ^ operand;
            return source > last ? lane : source;
        }
    }
}

uint64_t reduce(int op, uint64_t a, uint64_t b) {
    const uint32_t x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
    const int32_t sx = static_cast<int32_t>(x), sy = static_cast<int32_t>(y);
    switch (op) {
        case CUEMU_REDUCE_ADD: return x + y;
        case CUEMU_REDUCE_MIN_S: return static_cast<uint32_t>(sx < sy ? sx : sy);
        case CUEMU_REDUCE_MAX_S: return static_cast<uint32_t>(sx > sy ? sx : sy);
        case CUEMU_REDUCE_MIN_U: return x < y ? x : y;
        case CUEMU_REDUCE_MAX_U: return x > y ? x : y;
        case CUEMU_REDUCE_AND: return x & y;
        case CUEMU_REDUCE_OR: return x | y;
        default: return x ^ y;
    }
}

}  // namespace

uint64_t Executor::warp_op(int op, uint32_t mask, uint64_t value, uint32_t operand, int width,
                           const void* site) {
    Thread& self = *current;
    self.site = site;
    self.mask = mask;
    self.op = op;
    self.operand = operand;
    self.width = width;
    self.value = value;
    const uint32_t bit = 1u << self.lane();
    if (!(mask & bit)) {
        char message[160];
        snprintf(message, sizeof(message), "lane %u calls a warp operation with mask 0x%08x, which does not name it",
                 self.lane(), mask);
        if (launch->tracer) {
            launch->tracer->finding_here(*this, "warp_mask", message, site);
            self.mask = mask |= bit;
        } else {
            fail("warp_mask", message, site);
        }
    }
    if (width <= 0 || width > 32 || (width & (width - 1))) {
        fail("shuffle_width", "a shuffle's width is a power of two up to 32, not " + std::to_string(width), site);
    }
    self.wait = Wait::kWarpOp;
    Warp& warp = warps[self.warp()];
    warp.waiting |= bit;
    complete_if_all_here(self.warp());
    wait_here();
    return self.result;
}

void Executor::complete_if_all_here(unsigned w) {
    Warp& warp = warps[w];
    for (uint32_t left = warp.waiting; left; left &= left - 1) {  // divergent lanes may wait in several groups
        const unsigned first = static_cast<unsigned>(__builtin_ctz(left));
        const Thread& leader = threads[w * kWarp + first];
        const uint32_t group = leader.mask & warp.alive;
        if ((warp.waiting & group) != group) continue;
        bool agree = true;
        for (uint32_t rest = group; rest && agree; rest &= rest - 1) {
            const Thread& lane = threads[w * kWarp + static_cast<unsigned>(__builtin_ctz(rest))];
            agree = (lane.mask & warp.alive) == group && lane.op == leader.op &&
                    (lane.op != CUEMU_GATHER || lane.site == leader.site);
        }
        if (!agree) continue;
        complete(w, group);
        left &= ~group | (1u << first);
    }
}

// Nothing else can go on: lanes that asked who is with them are those who wait at the same line.
bool Executor::release_gathered() {
    for (unsigned w = 0; w < warp_count; ++w) {
        uint32_t group = 0;
        const void* site = nullptr;
        for (uint32_t rest = warps[w].waiting; rest; rest &= rest - 1) {
            const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
            const Thread& thread = threads[w * kWarp + lane];
            if (thread.op != CUEMU_GATHER || (site && thread.site != site)) continue;
            site = thread.site;
            group |= 1u << lane;
        }
        if (group) return complete(w, group), true;
    }
    return false;
}

// A matrix operation is the whole warp's: without a lane nothing is defined. False: a lane was cut
// short, which has been told.
bool Executor::whole_warp(unsigned w, uint32_t group, const Thread& leader) {
    if (group == ~0u) return true;
    if (parked_) return false;
    const std::string absent = std::to_string(__builtin_ctz(~group));
    const std::string message = "a matrix operation takes all 32 lanes of a warp, and lane " + absent + " of warp " +
                                std::to_string(w) + " is not there";
    if (!launch->tracer) fail("warp_mask", message, leader.site);
    launch->tracer->finding_here(*this, "warp_mask", message, leader.site);
    return false;
}

void Executor::complete(unsigned w, uint32_t group) {
    Thread* lanes = &threads[w * kWarp];
    Thread& leader = lanes[__builtin_ctz(group)];
    const int op = leader.op;
    if (launch->tracer) launch->tracer->warp_op_completes(*this, w, group);
    uint64_t combined = 0;
    switch (op) {
        case CUEMU_ALL: combined = 1; break;
        case CUEMU_GATHER: combined = group; break;
        case CUEMU_REDUCE_AND: case CUEMU_REDUCE_OR: case CUEMU_REDUCE_XOR: case CUEMU_REDUCE_ADD:
        case CUEMU_REDUCE_MIN_S: case CUEMU_REDUCE_MAX_S: case CUEMU_REDUCE_MIN_U: case CUEMU_REDUCE_MAX_U:
            combined = leader.value;
            for (uint32_t rest = group & (group - 1); rest; rest &= rest - 1) {
                combined = reduce(op, combined, lanes[__builtin_ctz(rest)].value);
            }
            break;
        case CUEMU_CALL: {
            if (!whole_warp(w, group, leader)) break;
            void* handed[kWarp] = {};
            for (uint32_t rest = group; rest; rest &= rest - 1) {
                const int lane = __builtin_ctz(rest);
                handed[lane] = reinterpret_cast<void*>(lanes[lane].value);
            }
            reinterpret_cast<CuemuWarpCall>(*static_cast<void**>(handed[__builtin_ctz(group)]))(handed);
            break;
        }
        default: break;
    }
    if (op == CUEMU_ALL || op == CUEMU_ANY || op == CUEMU_BALLOT) {
        uint32_t votes = 0;
        for (uint32_t rest = group; rest; rest &= rest - 1) {
            const int lane = __builtin_ctz(rest);
            votes |= lanes[lane].value ? 1u << lane : 0;
        }
        combined = op == CUEMU_ALL ? votes == group : op == CUEMU_ANY ? votes != 0 : votes;
    }
    if (op == CUEMU_MATCH_ALL) {
        combined = group;
        for (uint32_t rest = group; rest; rest &= rest - 1) {
            if (lanes[__builtin_ctz(rest)].value != leader.value) combined = 0;
        }
    }
    for (uint32_t rest = group; rest; rest &= rest - 1) {
        Thread& lane = lanes[__builtin_ctz(rest)];
        lane.result = combined;
        if (op >= CUEMU_SHFL_IDX && op <= CUEMU_SHFL_XOR) {
            const unsigned source = shuffle_source(lane);
            if (group >> source & 1) {
                lane.result = lanes[source].value;
            } else {
                lane.result = kUndefined;
                if (launch->tracer) launch->tracer->shuffle_from_absent(*this, lane, source);
            }
        } else if (op == CUEMU_MATCH_ANY) {
            uint32_t same = 0;
            for (uint32_t others = group; others; others &= others - 1) {
                const int other = __builtin_ctz(others);
                same |= lanes[other].value == lane.value ? 1u << other : 0;
            }
            lane.result = same;
        }
    }
    warps[w].waiting &= ~group;
    for (unsigned i = 0; i < kWarp; ++i) {
        const unsigned lane = launch->order == Order::kReverse ? kWarp - 1 - i : i;
        if (group >> lane & 1) make_ready(lanes[lane]);
    }
}

}  // namespace cuemu

using cuemu::executor;

extern "C" {

int cuemu_block_barrier(int kind, int predicate) {
    return executor->barrier(kind, predicate, __builtin_return_address(0));
}
uint64_t cuemu_block_warp(int op, uint32_t mask, uint64_t value, uint32_t operand, int width) {
    return executor->warp_op(op, mask, value, operand, width, __builtin_return_address(0));
}
void cuemu_block_grid() { executor->grid_barrier(__builtin_return_address(0)); }
void cuemu_yield() { executor->yield(); }
void cuemu_fence(int scope) {
    if (executor->launch->tracer) executor->launch->tracer->fence(*executor, scope);
}
uint64_t cuemu_clock() { return ++executor->steps; }
long clock() noexcept { return static_cast<long>(cuemu_clock()); }
}
