// Remembers who touched each word last, and knows which earlier accesses are ordered before now.
//
// Order inside a block comes from barriers (an epoch per interval between two), from __syncwarp
// (per lane, how far each other lane is known to have come) and from a fence followed by an atomic that another thread's atomic
// meets. Between blocks only the last of these counts.
#pragma once
#include <stdint.h>
#include <string.h>

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

namespace cuemu {

struct Touch {
    uint32_t epoch, pc, sequence;
    uint16_t thread;
    uint8_t atomic : 1, shared : 1, wrote : 1, valid;  // 16 bytes: four of them are a cache line

    // In two words at once: written field by field, it would wait for its own stores when copied.
    static Touch made(uint32_t epoch, uint32_t pc, uint32_t sequence, unsigned thread, bool atomic, bool shared) {
        const uint64_t words[2] = {epoch | static_cast<uint64_t>(pc) << 32,
                                   sequence | static_cast<uint64_t>(thread & 0xffff) << 32 |
                                       static_cast<uint64_t>(atomic | shared << 1) << 48 | 1ull << 56};
        Touch touch;
        memcpy(&touch, words, sizeof(touch));
        return touch;
    }
};
static_assert(sizeof(Touch) == 16);

// After atomics, `same_warp_read` may be an earlier one of them (`wrote`) that nothing orders before the last.
struct alignas(64) Cell {
    Touch write, read, other_warp_read, same_warp_read;
};

struct Conflict {
    Touch earlier;
    uint64_t block;
    bool earlier_wrote;
};

class RaceShadow {
   public:
    void block_begins(uint64_t block, unsigned warps);
    void barrier();                                  // orders everything before it in the block
    void syncwarp(unsigned warp, uint32_t group);
    void fence(unsigned thread);
    void atomic(unsigned thread, uint64_t address);  // may release, may acquire
    // What the thread did so far is known to whoever acquires the same key later.
    void release(unsigned thread, uint64_t key);
    void acquire(unsigned thread, uint64_t key);
    // The earlier access that this one races with, if any.
    // Shared memory is new in every block, so what earlier blocks did there does not count.
    bool access(uint64_t address, unsigned size, bool shared, unsigned thread, bool writes, bool atomic,
                uint32_t pc, Conflict& conflict);
    bool full() const { return full_; }
    RaceShadow();

   private:
    static constexpr unsigned kPageWords = 1024;
    static constexpr size_t kPageLimit = 32768;  // 2 GiB of cells; beyond, races go unchecked
    static constexpr size_t kKeptPages = 1024;   // 64 MiB between traces
    using Page = std::array<Cell, kPageWords>;
    using Seen = std::unordered_map<uint64_t, uint32_t>;  // (block, thread or all) -> sequence

    // Pages outlive a trace: to get and clear them again costs more than the accesses. What an
    // earlier trace left is told by its epoch, which never goes back.
    struct Store {
        std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
        uint32_t epoch = 0;
    };
    static Store& store();

    Cell* cell_of(uint64_t word);
    uint64_t block_of(uint32_t epoch) const { return block_of_epoch_[epoch - trace_epoch_]; }
    bool touch(Cell& cell, const Touch& now, bool writes, Conflict& conflict);
    bool ordered(const Touch& earlier, const Touch& now) const;
    bool seen(const Seen& map, const Touch& earlier) const;
    static uint64_t key(uint64_t block, unsigned thread) { return block << 12 | thread; }
    static void merge(Seen& into, const Seen& from);

    Store& store_;
    std::unordered_map<uint64_t, std::array<Cell, 4>> split_;
    std::array<std::pair<uint64_t, Page*>, 64> recent_{};
    std::vector<uint64_t> block_of_epoch_{0};       // from trace_epoch_ on
    std::vector<std::array<uint32_t, 32>> known_;  // [thread][lane of its warp] -> sequence
    uint32_t trace_epoch_, epoch_, first_epoch_ = 0, sequence_ = 0, epoch_start_ = 0;
    uint64_t block_ = 0;
    bool fences_used_ = false, full_ = false;
    std::unordered_map<uint64_t, Seen> released_;   // by key: an atomic's address, or a barrier's phase
    std::unordered_map<unsigned, Seen> acquired_;   // by thread of this block
    Seen block_acquired_;
    std::vector<uint8_t> fenced_;
};

}  // namespace cuemu
