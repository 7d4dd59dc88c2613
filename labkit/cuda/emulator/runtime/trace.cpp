#include "trace.h"

#include <string.h>

#include <algorithm>

#include "heap.h"
#include "json.h"
#include "module.h"

namespace cuemu {

thread_local Tracer* Tracer::active = nullptr;
uint64_t device_low, device_high, device_mapped_high;

namespace {
constexpr uint64_t kStray = 4096;  // bytes: an access this near an array's space was meant for it
constexpr size_t kBufferedLimit = 16u << 20;  // events waiting for their warp: 256 MiB

uint64_t load(uint64_t address, unsigned size) {
    uint64_t value = 0;
    memcpy(&value, reinterpret_cast<const void*>(address), size < 8 ? size : 8);
    return value;
}

void store(uint64_t address, uint64_t value, unsigned size) {
    memcpy(reinterpret_cast<void*>(address), &value, size < 8 ? size : 8);
}

const Extent* extent_at(const std::vector<Extent>& extents, uint64_t address) {
    const auto after = std::upper_bound(extents.begin(), extents.end(), address,
                                        [](uint64_t a, const Extent& e) { return a < e.low; });
    if (after == extents.begin()) return nullptr;
    const Extent& candidate = *(after - 1);
    return address < candidate.high ? &candidate : nullptr;
}
}  // namespace

Tracer::Tracer(Launch& launch, const char* message) : launch_(launch), module_(*launch.module) {
    memcpy(&request_, message, sizeof(request_));
    const char* at = message + sizeof(request_);
    const auto next = [&at] {
        uint64_t value;
        memcpy(&value, at, sizeof(value));
        at += sizeof(value);
        return value;
    };
    if (request_.sampled_count != ~0u) {
        for (uint32_t i = 0; i < request_.sampled_count; ++i) sampled_.push_back(next());
    }
    for (uint32_t i = 0; i < request_.extent_count; ++i) {
        const uint64_t low = next(), size = next();
        extents_.push_back({low, low + size, static_cast<int>(i)});
    }
    for (uint32_t i = 0; i < request_.watch_count; ++i) watched_.insert(next());
    std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) { return a.low < b.low; });
    logs_.resize(kMaxThreads);
    site_of_.resize(static_cast<size_t>(module_.image_end - module_.base) * 4);
    random_state_ = request_.adversary_seed;

    const auto belongs = [&](const Symbol& symbol) {  // to this kernel, or to no kernel at all
        for (uint32_t k = 0; k < module_.kernels.size(); ++k) {
            const std::string other = module_.kernel_functions[k];
            const bool owns = other == symbol.owner || other.rfind(symbol.owner + "(", 0) == 0;
            if (owns) return &module_.kernels[k] == launch.kernel;
        }
        return true;
    };
    for (const Symbol& symbol : module_.shared) {
        if (!belongs(symbol)) continue;
        shared_offsets_.push_back({static_cast<uint64_t>(symbol.offset), static_cast<uint64_t>(symbol.offset) + symbol.size,
                                   static_cast<int>(shared_names_.size())});
        shared_names_.push_back(symbol.name);
    }
    if (module_.dynamic_capacity) {
        const auto low = static_cast<uint64_t>(module_.dynamic_offset);
        shared_offsets_.push_back({low, low + launch.shared_bytes, static_cast<int>(shared_names_.size())});
        shared_names_.push_back(module_.dynamic_names.empty() ? "dynamic shared memory" : module_.dynamic_names[0]);
    }
    for (const Symbol& symbol : module_.globals) {
        const auto low = reinterpret_cast<uint64_t>(module_.base + symbol.offset);
        variable_extents_.push_back({low, low + symbol.size, static_cast<int>(variable_names_.size())});
        variable_names_.push_back(symbol.name);
    }
    std::sort(variable_extents_.begin(), variable_extents_.end(),
              [](const Extent& a, const Extent& b) { return a.low < b.low; });
}

uint64_t Tracer::random() {
    uint64_t z = (random_state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint3 Tracer::thread_index(uint32_t t) const {
    const dim3& extent = launch_.block;
    return {t % extent.x, t / extent.x % extent.y, t / extent.x / extent.y};
}

uint3 Tracer::block_index(uint64_t b) const {
    const dim3& grid = launch_.grid;
    return {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
            static_cast<unsigned>(b / grid.x / grid.y)};
}

void Tracer::block_begins(Executor& e) {
    recording_ = !truncated_ && (request_.sampled_count == ~0u ||
                                 std::find(sampled_.begin(), sampled_.end(), e.block_linear) != sampled_.end());
    disturbed_ = false;
    memset(last_extent_, 0, sizeof(last_extent_));  // shared arrays move
    if (!recording_) return;
    ++blocks_traced_;
    const char* base = module_.shared_base();
    shared_anchor_ = reinterpret_cast<uint64_t>(base);
    shared_extents_.clear();
    shared_low_ = ~0ull, shared_high_ = 0;
    for (const Extent& extent : shared_offsets_) {
        const auto low = reinterpret_cast<uint64_t>(base) + extent.low;
        shared_extents_.push_back({low, low + extent.high - extent.low, extent.index});
    }
    std::sort(shared_extents_.begin(), shared_extents_.end(), [](const Extent& a, const Extent& b) { return a.low < b.low; });
    if (!module_.shared.empty() || module_.dynamic_capacity) {  // all of it: an overflow must be recognised
        const uint64_t anchor = shared_anchor_;
        if (!module_.shared.empty()) {
            shared_low_ = anchor + static_cast<uint64_t>(module_.shared_low);
            shared_high_ = anchor + static_cast<uint64_t>(module_.shared_high);
        }
        if (module_.dynamic_capacity) {
            const uint64_t low = anchor + static_cast<uint64_t>(module_.dynamic_offset);
            shared_low_ = std::min(shared_low_, low);
            shared_high_ = std::max(shared_high_, low + module_.dynamic_capacity);
        }
        uint64_t used_high = shared_low_;
        for (const Extent& extent : shared_extents_) used_high = std::max(used_high, extent.high);
        initialised_.assign(used_high - shared_low_, 0);
    }
    shadow_.block_begins(e.block_linear, e.warp_count);
    for (unsigned t = 0; t < e.warp_count * kWarp; ++t) logs_[t].events.clear(), logs_[t].depth = 0;
}

void Tracer::block_ends(Executor& e) {
    settle();
    report_unconfirmed(nullptr);
    if (!recording_) return;
    for (unsigned w = 0; w < e.warp_count; ++w) replay(w);
    recording_ = false;
}

void Tracer::thread_begins(Thread& thread) {
    settle();
    logs_[thread.index].depth = 0;
}

void Tracer::thread_ends(Executor& e, Thread& thread) {
    settle();
    report_unconfirmed(&thread);
    if (recording_ && e.warps[thread.warp()].alive == 0) replay(thread.warp());
}

void Tracer::function(int step) {
    if (recording_ && executor->current) logs_[executor->current->index].depth = static_cast<uint16_t>(logs_[executor->current->index].depth + step);
}

void Tracer::basic_block(const void* site) {
    last_site_ = site;
    if (!recording_) return;
    if (!pending_.empty() || restore_.waits || log_waits_) settle();
    LaneLog& log = logs_[executor->current->index];
    const uint64_t pc = module_.offset(site);
    log.events.push_back({static_cast<uint64_t>(0xffff - log.depth) << 48 | pc << 16, 0});
    ++buffered_;
    if (++event_count_ > request_.event_limit) truncated_ = true, recording_ = false;
}

Space Tracer::classify(uint64_t address) const {
    if (address >= device_low && address < device_high) return kGlobal;
    for (const Symbol& guard : module_.guards) {
        const uint64_t low = shared_anchor_ + static_cast<uint64_t>(guard.offset);
        if (address >= low && address < low + guard.size) return kLocal;
    }
    if (address >= shared_low_ && address < shared_high_) return kShared;
    const Fiber* fiber = executor->current->fiber;
    if (address >= reinterpret_cast<uint64_t>(fiber->stack) && address < reinterpret_cast<uint64_t>(fiber->stack) + kStackBytes) return kLocal;
    if (address >= launch_.parameters_low && address < launch_.parameters_high) return kLocal;  // being passed
    const auto state = reinterpret_cast<uint64_t>(&cuemu_state);
    if (address >= state && address < state + sizeof(cuemu_state)) return kLocal;
    if (address >= reinterpret_cast<uint64_t>(module_.base) && address < reinterpret_cast<uint64_t>(module_.image_end)) {
        return extent_at(variable_extents_, address) ? kVariable : kLocal;  // literals and tables
    }
    if (heap_knows(address)) return kGlobal;  // it may lie beside the shared arrays
    const auto near = [address](uint64_t low, uint64_t high) { return address + kStray >= low && address < high + kStray; };
    if (near(shared_low_, shared_high_)) return kShared;
    if (near(reinterpret_cast<uint64_t>(module_.base), reinterpret_cast<uint64_t>(module_.image_end))) return kVariable;
    return kGlobal;  // a wild pointer: no extent will claim it
}

void Tracer::access(void* pointer, unsigned size, Access access, const void* site, bool goes_on) {
    if (!recording_) return;
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const Space space = classify(address);
    if (space == kLocal) return;
    if (!goes_on && (!pending_.empty() || restore_.waits || log_waits_)) settle();
    const uint64_t pc = module_.offset(site);
    if (size > 1 && (size & (size - 1)) == 0 && address % size) {
        Finding* finding = add_here("misaligned", pc);
        if (finding) {
            finding->address = address, finding->size = size, finding->access = access, finding->space = space;
            describe_place(*finding, address, space);
        }
        disturbed_ = true;
        executor->park();
    }
    if (!check_bounds(address, size, space, access, pc)) return;
    if (request_.adversary && !goes_on) adversary_before(address, size, space, access, pc);
    if (space == kShared) check_initialised(address, size, access, pc);
    if (request_.check_races) check_race(address, size, space, access, pc);
    LaneLog& log = logs_[executor->current->index];
    log.events.push_back({static_cast<uint64_t>(0xffff - log.depth) << 48 | pc << 16 |
                              static_cast<uint64_t>(space) << 12 | static_cast<uint64_t>(access) << 8 | size,
                          address});
    ++buffered_;
    if (++event_count_ > request_.event_limit) truncated_ = true, recording_ = false;
    if (buffered_ > kBufferedLimit) {
        for (unsigned w = 0; w < executor->warp_count; ++w) replay(w);
    }
}

bool Tracer::check_bounds(uint64_t address, unsigned size, Space space, Access access, uint64_t pc) {
    const auto& extents = space == kGlobal ? extents_ : space == kShared ? shared_extents_ : variable_extents_;
    const Extent*& last = last_extent_[(pc ^ pc >> 6) % 64];
    if (last && address >= last->low && address + size <= last->high) return true;
    const Extent* extent = extent_at(extents, address);
    if (extent && address + size <= extent->high) {
        last = extent;
        return true;
    }
    if (space == kGlobal && !extent && heap_holds(address, size)) return true;
    Finding* finding = add_here("out_of_bounds", pc);
    if (finding) {
        finding->address = address, finding->size = size, finding->access = access, finding->space = space;
        describe_place(*finding, address, space);
    }
    // A read of memory that exists can go on, and show what else is wrong.
    if (access == kRead && space == kGlobal && address >= device_low && address + size <= device_mapped_high) return false;
    disturbed_ = true;
    executor->park();
    return false;
}

void Tracer::check_initialised(uint64_t address, unsigned size, Access access, uint64_t pc) {
    uint8_t* bytes = &initialised_[address - shared_low_];
    bool missing = false;
    if (access != kWrite) {
        for (unsigned i = 0; i < size; ++i) missing |= !bytes[i];
    }
    memset(bytes, 1, size);  // once told is enough
    if (!missing || disturbed_) return;
    if (Finding* finding = add_here("uninitialised", pc)) {
        finding->address = address, finding->size = size, finding->access = access, finding->space = kShared;
        describe_place(*finding, address, kShared);
    }
}

void Tracer::check_race(uint64_t address, unsigned size, Space space, Access access, uint64_t pc) {
    Conflict conflict;
    const unsigned thread = executor->current->index;
    if (access == kAtomic) shadow_.atomic(thread, address);
    if (!shadow_.access(address, size, space == kShared, thread, access != kRead, access == kAtomic, static_cast<uint32_t>(pc), conflict)) return;
    const Race race{conflict, address, pc, size, space, access, cuemu_state.block_idx, cuemu_state.thread_idx};
    if (access == kWrite && conflict.earlier_wrote && !conflict.earlier.atomic && size <= 16) {
        Pending& pending = pending_.emplace_back(Pending{race, {0, 0}});
        memcpy(pending.old, reinterpret_cast<const void*>(address), size);
        return;
    }
    if (access == kRead ? conflict.earlier.atomic : access == kAtomic && !conflict.earlier_wrote) {
        const unsigned reader = access == kRead ? thread : conflict.earlier.thread;
        const bool here = access == kRead || conflict.block == executor->block_linear;
        if (here && executor->threads[reader].wait != Wait::kDone) {
            unconfirmed_.push_back({race, reader, load(address, size)});
            return;
        }
    }
    report_race(race);
}

void Tracer::compared(void* pointer, unsigned size, uint64_t expected) {
    std::erase_if(unconfirmed_, [&](const Unconfirmed& one) {
        return one.reader == executor->current->index && one.race.address == reinterpret_cast<uint64_t>(pointer) &&
               one.race.size == size && one.value == expected;
    });
}

void Tracer::report_unconfirmed(const Thread* of) {
    std::erase_if(unconfirmed_, [&](const Unconfirmed& one) {
        if (of && one.reader != of->index) return false;
        report_race(one.race);
        return true;
    });
}

void Tracer::settle() {
    for (const Pending& pending : pending_) {
        const auto* now = reinterpret_cast<const void*>(pending.race.address);
        if (memcmp(now, pending.old, pending.race.size) != 0) report_race(pending.race);
    }
    pending_.clear();
    if (log_waits_) {
        log_waits_ = false;
        log_.back().after = load(log_.back().address, log_.back().size);
    }
    if (restore_.waits) {
        restore_.waits = false;
        if (load(restore_.address, restore_.size) == restore_.shown) store(restore_.address, restore_.latest, restore_.size);
    }
}

// Any order that no barrier forbids is legal: give way at a watched access half of the time, and
// sometimes let this block read what was there before an earlier block wrote.
void Tracer::adversary_before(uint64_t address, unsigned size, Space space, Access access, uint64_t pc) {
    if (!watched_.empty() && !watched_.count(pc)) return;
    if (random() % 2) {
        executor->preempt();
        settle();
    }
    bool stale = false;
    if (space != kShared && size <= 8) {
        const uint64_t block = executor->block_linear;
        const auto older = older_.find(address);
        if (access == kRead && older != older_.end() && older->second.block != block && random() % 2) {
            const uint64_t latest = load(address, size);
            restore_ = {true, address, latest, older->second.before, size};
            store(address, older->second.before, size);
            stale = true;
        } else if (access == kWrite && (older == older_.end() || older->second.block != block)) {
            older_[address] = {block, load(address, size)};
        }
    }
    if (log_.size() < 4096) {
        log_.push_back({pc, address, load(address, size), 0, static_cast<uint32_t>(executor->block_linear),
                        executor->current->index, access, static_cast<uint8_t>(std::min(size, 8u)), stale});
        log_waits_ = access != kRead;
        if (!log_waits_) log_.back().after = log_.back().before;
    }
}

void Tracer::barrier_completes(Executor& e, unsigned arrived) {
    settle();
    report_unconfirmed(nullptr);
    if (!recording_) return;
    const Thread* first = nullptr;
    for (unsigned t = 0; t < e.thread_count; ++t) {
        const Thread& thread = e.threads[t];
        if (thread.wait != Wait::kBarrier) continue;
        if (!first) first = &thread;
        if (thread.site == first->site || disturbed_) continue;
        if (Finding* finding = add("barrier_divergence", module_.offset(first->site), module_.offset(thread.site))) {
            finding->block = finding->other_block = cuemu_state.block_idx;
            finding->thread = first->idx, finding->other_thread = thread.idx;
            finding->has_other = true;
            finding->message = "threads of one block wait at two different barriers";
        }
    }
    if (first && arrived < e.thread_count && !disturbed_) {
        if (Finding* finding = add("barrier_divergence", module_.offset(first->site), 0)) {
            finding->block = cuemu_state.block_idx;
            finding->thread = first->idx;
            finding->message = std::to_string(e.thread_count - arrived) + " of " + std::to_string(e.thread_count) +
                               " threads returned without reaching this barrier";
        }
    }
    for (unsigned w = 0; w < e.warp_count; ++w) replay(w);
    shadow_.barrier();
}

void Tracer::warp_op_completes(Executor& e, unsigned warp, uint32_t group) {
    settle();
    if (!recording_) return;
    if (group == e.warps[warp].alive) replay(warp);
    const Thread& leader = e.threads[warp * kWarp + static_cast<unsigned>(__builtin_ctz(group))];
    if (leader.op == CUEMU_SYNCWARP) shadow_.syncwarp(warp, group);
}

void Tracer::fence(Executor& e, int) {
    settle();
    if (recording_) shadow_.fence(e.current->index);
}

namespace {
uint64_t key_of(const CuemuPhases& barrier, uint32_t phase) {  // no address: those are multiples of 4
    return reinterpret_cast<uint64_t>(&barrier) + 1 + (static_cast<uint64_t>(phase) << 48);
}
}  // namespace

// What was done before arriving in a phase is known behind a wait for that phase.
void Tracer::arrives(Executor& e, CuemuPhases& barrier, const void* site) {
    settle();
    access(&barrier.expected, sizeof(barrier.expected), kRead, site);
    access(&barrier.left, sizeof(barrier.left), kAtomic, site);
    if (recording_) shadow_.release(e.current->index, key_of(barrier, barrier.phase));
}

void Tracer::waited(Executor& e, const CuemuPhases& barrier, uint32_t phase) {
    settle();
    if (recording_) shadow_.acquire(e.current->index, key_of(barrier, phase));
}

}  // namespace cuemu
