// Puts the lanes of a warp back together: which accesses were one instruction, and what it cost.
//
// Rule: of the lanes' next events, those in the deepest call go first, then those at the lowest
// address; lanes at the same place go together. Basic-block events keep lanes that left a loop
// waiting for those still in it, which is how the hardware reconverges.
#include <string.h>

#include "module.h"
#include "trace.h"

namespace cuemu {

namespace {

constexpr unsigned kSectorBytes = 32, kBanks = 32, kBankBytes = 4;

// How many different values of address / unit the lanes touch. Lanes mostly ask in order, up or
// down: only a value between those seen has to be looked for.
unsigned distinct(const Event* const* heads, uint32_t mask, unsigned size, unsigned unit) {
    uint64_t seen[kWarp * 2], low = ~0ull, high = 0;
    const auto shift = static_cast<unsigned>(__builtin_ctz(unit));
    const bool shifts = unit == 1u << shift;  // else a struct of, say, 12 bytes
    const auto number = [&](uint64_t address) { return shifts ? address >> shift : address / unit; };
    unsigned count = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const uint64_t address = heads[__builtin_ctz(rest)]->address;
        const uint64_t last = number(address + size - 1);
        for (uint64_t value = number(address); value <= last; ++value) {
            bool known = false;
            if (count && value <= high && value >= low) {
                for (unsigned i = count; i-- > 0 && !known;) known = seen[i] == value;
            }
            if (known) continue;
            seen[count++] = value;
            low = value < low ? value : low, high = value > high ? value : high;
        }
    }
    return count;
}

// Passes over the banks for one group of lanes: the most different words that one bank holds.
unsigned passes(const Event* const* heads, uint32_t mask, unsigned size) {
    uint64_t words[kBanks][kWarp], high[kBanks];
    uint8_t count[kBanks] = {};
    unsigned most = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const uint64_t address = heads[__builtin_ctz(rest)]->address;
        for (uint64_t word = address / kBankBytes; word <= (address + size - 1) / kBankBytes; ++word) {
            const unsigned bank = word % kBanks;
            bool known = false;
            if (count[bank] && word <= high[bank]) {
                for (unsigned i = count[bank]; i-- > 0 && !known;) known = words[bank][i] == word;
            }
            if (known) continue;
            high[bank] = count[bank] && high[bank] > word ? high[bank] : word;
            words[bank][count[bank]++] = word;
            if (count[bank] > most) most = count[bank];
        }
    }
    return most;
}

// True when every lane's partner, `apart` lanes away, asks for the same address or for nothing.
bool in_pairs(const Event* const* heads, uint32_t mask, unsigned apart) {
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
        if (mask >> (lane ^ apart) & 1 && heads[lane]->address != heads[lane ^ apart]->address) return false;
    }
    return true;
}

// 8-byte accesses are served half a warp at a time, 16-byte ones a quarter; two neighbouring parts
// become one where lanes ask in pairs for one address. Seen on an H200 (benchmarks/check_counters).
void wavefronts(const Event* const* heads, uint32_t mask, unsigned size, uint64_t& taken, uint64_t& ideal) {
    if (size <= 4) {
        taken += passes(heads, mask, size);
        ideal += 1;
        return;
    }
    const unsigned lanes = size > 8 ? 8 : 16;
    for (unsigned first = 0; first < kWarp; first += 2 * lanes) {
        const uint32_t part = ((1u << lanes) - 1) << first, both = mask & (part | part << lanes);
        if (!both) continue;
        if (in_pairs(heads, both, 1) || in_pairs(heads, both, 2)) {
            taken += passes(heads, both, size);
            ideal += 1;
            continue;
        }
        for (const uint32_t group : {mask & part, mask & (part << lanes)}) {
            if (!group) continue;
            taken += passes(heads, group, size);
            ideal += 1;
        }
    }
}

unsigned most_at_one_address(const Event* const* heads, uint32_t mask) {
    unsigned most = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        unsigned same = 0;
        for (uint32_t other = mask; other; other &= other - 1) {
            same += heads[__builtin_ctz(other)]->address == heads[__builtin_ctz(rest)]->address;
        }
        if (same > most) most = same;
    }
    return most;
}

}  // namespace

Site& Tracer::site_for(uint64_t pc, Access access, Space space, uint8_t size) {
    uint32_t& number = site_of_[pc * 4 + space];
    if (!number) {
        sites_.push_back({pc, access, space, size, 0, 0, 0, 0, 0, 0, 0});
        kept_per_site_.push_back(0);
        number = static_cast<uint32_t>(sites_.size());
    }
    return sites_[number - 1];
}

void Tracer::count_request(const Event* const* heads, uint32_t mask) {
    const uint64_t key = heads[__builtin_ctz(mask)]->key;
    const auto size = static_cast<uint8_t>(key & 0xff);
    const auto access = static_cast<Access>(key >> 8 & 0xf);
    const auto space = static_cast<Space>(key >> 12 & 0xf);
    Site& site = site_for(key >> 16 & 0xffffffff, access, space, size);
    ++site.requests;
    site.lanes += static_cast<unsigned>(__builtin_popcount(mask));
    if (space == kShared) {
        wavefronts(heads, mask, size, site.wavefronts, site.ideal_wavefronts);
    } else {
        site.sectors += distinct(heads, mask, size, kSectorBytes);
        const uint64_t bytes = static_cast<uint64_t>(distinct(heads, mask, 1, size ? size : 1)) * size;
        site.ideal_sectors += (bytes + kSectorBytes - 1) / kSectorBytes;
    }
    if (access == kAtomic) site.same_address += most_at_one_address(heads, mask);
    const auto number = static_cast<uint32_t>(&site - sites_.data());
    if (kept_per_site_[number] >= request_.request_limit) return;
    ++kept_per_site_[number];
    RawRequest& raw = requests_.emplace_back();
    raw.site = number, raw.mask = mask, raw.block = executor->block_linear;
    raw.warp = 0;
    for (unsigned lane = 0; lane < kWarp; ++lane) raw.address[lane] = mask >> lane & 1 ? heads[lane]->address : 0;
}

void Tracer::replay(unsigned warp) {
    constexpr uint64_t kNone = ~0ull;
    const Event* head[kWarp];
    const Event* end[kWarp];
    uint64_t key[kWarp];
    bool any = false;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
        const std::vector<Event>& events = logs_[warp * kWarp + lane].events;
        head[lane] = events.data();
        end[lane] = events.data() + events.size();
        key[lane] = events.empty() ? kNone : head[lane]->key;
        any |= !events.empty();
    }
    if (!any) return;
    for (;;) {
        uint64_t lowest = kNone;
        for (unsigned lane = 0; lane < kWarp; ++lane) lowest = key[lane] < lowest ? key[lane] : lowest;
        if (lowest == kNone) break;
        uint32_t mask = 0;
        for (unsigned lane = 0; lane < kWarp; ++lane) mask |= static_cast<uint32_t>(key[lane] == lowest) << lane;
        if ((lowest >> 8 & 0xf) == kBlockEntry) {
            Run& run = runs_[lowest >> 16 & 0xffffffff];
            ++run.runs;
            run.lanes += static_cast<unsigned>(__builtin_popcount(mask));
        } else {
            const size_t kept = requests_.size();
            count_request(head, mask);
            if (requests_.size() > kept) requests_.back().warp = warp;
        }
        for (uint32_t rest = mask; rest; rest &= rest - 1) {
            const int lane = __builtin_ctz(rest);
            ++head[lane];
            key[lane] = head[lane] == end[lane] ? kNone : head[lane]->key;
        }
    }
    for (unsigned lane = 0; lane < kWarp; ++lane) {
        std::vector<Event>& events = logs_[warp * kWarp + lane].events;
        buffered_ -= events.size();
        events.clear();
    }
}

}  // namespace cuemu
