#include "shadow.h"

#include <algorithm>

namespace cuemu {

namespace {
constexpr unsigned kEveryone = 0xfff;
constexpr uint8_t kSplit = 2;  // in `valid` of a cell's write: its bytes have cells of their own
}  // namespace

RaceShadow::Store& RaceShadow::store() {
    static thread_local Store kept;
    return kept;
}

RaceShadow::RaceShadow() : store_(store()) {
    if (store_.pages.size() > kKeptPages || store_.epoch > 1u << 31) {
        store_.pages.clear();
        store_.epoch = 0;
    }
    trace_epoch_ = epoch_ = ++store_.epoch;
}

void RaceShadow::block_begins(uint64_t block, unsigned warps) {
    block_ = block;
    first_epoch_ = epoch_ = ++store_.epoch;
    block_of_epoch_.push_back(block);
    epoch_start_ = sequence_;
    known_.assign(warps * 32, {});
    acquired_.clear();
    block_acquired_.clear();
    fenced_.assign(warps * 32, 0);
}

void RaceShadow::barrier() {
    epoch_ = ++store_.epoch;
    block_of_epoch_.push_back(block_);
    epoch_start_ = sequence_;
    for (auto& [thread, map] : acquired_) merge(block_acquired_, map);
    acquired_.clear();
}

void RaceShadow::syncwarp(unsigned warp, uint32_t group) {
    std::array<uint32_t, 32> latest{};
    for (uint32_t rest = group; rest; rest &= rest - 1) {
        const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
        const auto& known = known_[warp * 32 + lane];
        for (unsigned i = 0; i < 32; ++i) latest[i] = std::max(latest[i], known[i]);
        latest[lane] = sequence_;
    }
    for (uint32_t rest = group; rest; rest &= rest - 1) {
        known_[warp * 32 + static_cast<unsigned>(__builtin_ctz(rest))] = latest;
    }
}

void RaceShadow::fence(unsigned thread) {
    fences_used_ = true;
    fenced_[thread] = 1;
}

void RaceShadow::merge(Seen& into, const Seen& from) {
    for (const auto& [who, sequence] : from) {
        uint32_t& known = into[who];
        known = std::max(known, sequence);
    }
}

void RaceShadow::atomic(unsigned thread, uint64_t address) {
    if (!fences_used_) return;
    acquire(thread, address);
    if (!fenced_[thread]) return;
    release(thread, address);
    ++released_[address][key(block_, thread)];  // the atomic itself, which is about to be noted
}

void RaceShadow::release(unsigned thread, uint64_t at) {
    fences_used_ = true;
    Seen& released = released_[at];
    merge(released, acquired_[thread]);
    merge(released, block_acquired_);
    released[key(block_, thread)] = sequence_;
    released[key(block_, kEveryone)] = epoch_start_;
}

void RaceShadow::acquire(unsigned thread, uint64_t at) { merge(acquired_[thread], released_[at]); }

bool RaceShadow::seen(const Seen& map, const Touch& earlier) const {
    if (map.empty()) return false;
    const uint64_t block = block_of(earlier.epoch);
    const auto own = map.find(key(block, earlier.thread));
    if (own != map.end() && own->second >= earlier.sequence) return true;
    const auto all = map.find(key(block, kEveryone));
    return all != map.end() && all->second >= earlier.sequence;
}

bool RaceShadow::ordered(const Touch& earlier, const Touch& now) const {
    if (now.shared && earlier.epoch < first_epoch_) return true;
    if (earlier.epoch >= first_epoch_) {
        if (earlier.epoch != epoch_ || earlier.thread == now.thread) return true;
        if (earlier.thread / 32 == now.thread / 32 &&
            known_[now.thread][earlier.thread % 32] >= earlier.sequence) {
            return true;
        }
    }
    if (!fences_used_) return false;
    const auto mine = acquired_.find(now.thread);
    return (mine != acquired_.end() && seen(mine->second, earlier)) || seen(block_acquired_, earlier);
}

Cell* RaceShadow::cell_of(uint64_t word) {
    const uint64_t number = word / kPageWords;
    auto& [cached_number, cached] = recent_[number % recent_.size()];
    if (!cached || cached_number != number) {
        auto found = store_.pages.find(number);
        if (found == store_.pages.end()) {
            if (store_.pages.size() >= kPageLimit) {
                full_ = true;
                return nullptr;
            }
            found = store_.pages.emplace(number, std::make_unique<Page>()).first;
        }
        cached_number = number;
        cached = found->second.get();
    }
    return &(*cached)[word % kPageWords];
}

bool RaceShadow::touch(Cell& cell, const Touch& now, bool writes, Conflict& conflict) {
    const auto against = [&](const Touch& earlier, bool earlier_wrote) {
        if (!earlier.valid || (earlier.atomic && now.atomic) || ordered(earlier, now)) return false;
        conflict = {earlier, block_of(earlier.epoch), earlier_wrote};
        return true;
    };
    const bool beside_wrote = cell.same_warp_read.wrote;
    bool races = against(cell.write, true) || (!writes && beside_wrote && against(cell.same_warp_read, true));
    if (writes) {  // one behind its own atomic, such as a counter's reset, comes after all it counted
        races = races || against(cell.read, false) || against(cell.other_warp_read, false) ||
                (!beside_wrote && against(cell.same_warp_read, false));
        Touch beside{};  // one's own atomic hides no other thread's
        for (const Touch& earlier : {cell.same_warp_read, cell.write}) {
            if (now.atomic && earlier.valid && earlier.atomic && !ordered(earlier, now)) beside = earlier, beside.wrote = 1;
        }
        cell = {};
        cell.write = now;
        cell.same_warp_read = beside;
        return races;
    }
    // Three readers are enough: the last, one of another warp or block, another of the last's warp.
    Touch& last = cell.read;
    if (!last.valid || ordered(last, now)) {
        if (last.valid && (last.epoch != now.epoch)) cell.other_warp_read.valid = cell.same_warp_read.valid = 0;
    } else if (last.epoch >= first_epoch_ && last.thread / 32 == now.thread / 32) {
        cell.same_warp_read = last;
    } else {
        cell.other_warp_read = last;
        cell.same_warp_read.valid = 0;
    }
    last = now;
    return races;
}

bool RaceShadow::access(uint64_t address, unsigned size, bool shared, unsigned thread, bool writes,
                        bool atomic, uint32_t pc, Conflict& conflict) {
    const Touch now = Touch::made(epoch_, pc, ++sequence_, thread, atomic, shared);
    bool races = false;
    for (uint64_t at = address; at < address + size;) {
        const uint64_t word = at / 4, end = std::min(address + size, (word + 1) * 4);
        Cell* cell = cell_of(word);
        if (!cell) return races;
        for (Touch* old : {&cell->write, &cell->read, &cell->other_warp_read, &cell->same_warp_read}) {
            if (old->epoch < trace_epoch_) old->valid = 0;  // of an earlier trace
        }
        const bool whole = at % 4 == 0 && end - at == 4;
        if (whole && cell->write.valid != kSplit) {
            races = touch(*cell, now, writes, conflict) || races;
        } else {
            if (cell->write.valid != kSplit) {
                split_[word] = {*cell, *cell, *cell, *cell};
                cell->write.valid = kSplit;
                cell->write.epoch = epoch_;  // it is this trace that split it
            }
            auto& bytes = split_[word];
            for (uint64_t byte = at; byte < end; ++byte) races = touch(bytes[byte % 4], now, writes, conflict) || races;
        }
        at = end;
    }
    return races;
}

}  // namespace cuemu
