// What a trace found: each kind at each place once, counted, with the thread and the array it met.
#include <string.h>

#include <algorithm>

#include "heap.h"
#include "module.h"
#include "trace.h"

namespace cuemu {

Finding* Tracer::add(const char* kind, uint64_t pc, uint64_t other_pc) {
    const std::string key = std::string(kind) + ":" + std::to_string(pc) + ":" + std::to_string(other_pc);
    const auto [at, fresh] = finding_of_.emplace(key, findings_.size());
    if (!fresh) {
        ++findings_[at->second].count;
        return nullptr;
    }
    Finding& finding = findings_.emplace_back();
    finding.kind = kind;
    finding.pc = pc;
    finding.other_pc = other_pc;
    finding.count = 1;
    return &finding;
}

Finding* Tracer::add_here(const char* kind, uint64_t pc, uint64_t other_pc) {
    Finding* finding = add(kind, pc, other_pc);
    if (finding) finding->block = cuemu_state.block_idx, finding->thread = cuemu_state.thread_idx;
    return finding;
}

// The array an address lies in, or the nearest one before or after it.
void Tracer::describe_place(Finding& finding, uint64_t address, Space space) const {
    if (space == kGlobal && heap_knows(address)) {
        finding.message = heap_about(address, finding.size);
        return;
    }
    const auto& extents = space == kGlobal ? extents_ : space == kShared ? shared_extents_ : variable_extents_;
    uint64_t best = ~0ull;
    for (const Extent& extent : extents) {
        const uint64_t distance = address < extent.low ? extent.low - address : address < extent.high ? 0 : address - extent.high + 1;
        if (distance < best) {
            best = distance;
            finding.array = extent.index;
            finding.offset = static_cast<int64_t>(address - extent.low);
            finding.array_size = extent.high - extent.low;
        }
    }
}

void Tracer::report_race(const Race& race) {
    const auto& [conflict, address, pc, size, space, access, block, thread] = race;
    const uint64_t other = conflict.earlier.pc;
    Finding* finding = add("race", std::max(pc, other), std::min(pc, other));
    if (!finding) return;
    finding->pc = pc, finding->other_pc = other;
    finding->block = block, finding->thread = thread;
    finding->other_block = block_index(conflict.block), finding->other_thread = thread_index(conflict.earlier.thread);
    finding->has_other = true;
    finding->address = address, finding->size = size, finding->access = access, finding->space = space;
    finding->other_access = conflict.earlier.atomic ? kAtomic : conflict.earlier_wrote ? kWrite : kRead;
    describe_place(*finding, address, space);
}

void Tracer::finding_here(Executor& e, const char* kind, const std::string& message, const void* site) {
    if (!recording_) return;
    if (Finding* finding = add(kind, module_.offset(site), 0)) {
        finding->block = cuemu_state.block_idx, finding->thread = e.current->idx;
        finding->message = message;
    }
}

void Tracer::shuffle_from_absent(Executor&, Thread& lane, unsigned source) {
    if (!recording_ || disturbed_) return;
    if (Finding* finding = add("shuffle", module_.offset(lane.site), 0)) {
        finding->block = cuemu_state.block_idx, finding->thread = lane.idx;
        finding->message = "lane " + std::to_string(lane.lane()) + " reads from lane " + std::to_string(source) +
                           ", which takes no part in the shuffle (it has exited or is not in the mask)";
    }
}

void Tracer::shifts_too_far(unsigned bits, int64_t places, const void* site) {
    finding_here(*executor, "undefined",
                 "a number of " + std::to_string(bits) + " bits is shifted by " + std::to_string(places) +
                     ": C++ leaves open what comes out (a GPU shifts every bit out, the emulator does not)", site);
}

void Tracer::divides_by_zero(const void* site) {
    if (!recording_) return;
    finding_here(*executor, "undefined",
                 "an integer is divided by zero: C++ leaves open what comes out, and a GPU goes on with some number", site);
    disturbed_ = true;
    executor->park();
}

const char* Tracer::own_array(const char* file, unsigned line, unsigned column) const {
    const auto found = module_.own_subscripts.find({file, line, column});
    return found == module_.own_subscripts.end() ? nullptr : found->second;
}

void Tracer::leaves_own_array(const char* array, const char* type, int64_t index, const void* site) {
    if (!recording_) return;
    if (Finding* finding = add_here("out_of_bounds", module_.offset(site))) {
        finding->space = kLocal, finding->access = kBlockEntry;  // the compiler does not say if it reads or writes
        finding->message = "element " + std::to_string(index) + " of " + array + ", whose type is " + std::string(type + 1, strlen(type) - 2);
    }
    disturbed_ = true;
    executor->park();
}

void Tracer::deadlock(Executor& e, const std::string& details) {
    settle();
    for (unsigned t = 0; t < e.thread_count; ++t) {
        const Thread& thread = e.threads[t];
        if (!thread.waits()) continue;
        if (Finding* finding = add("deadlock", module_.offset(thread.site), 0)) {
            finding->block = cuemu_state.block_idx, finding->thread = thread.idx;
            finding->message = "every thread that is left waits for one that never comes";
            finding->details = details;
        }
        return;
    }
}

}  // namespace cuemu
