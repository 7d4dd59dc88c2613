// Watches a launch of the trace build: every access with its thread, every basic block.
//
// The compiler's -fsanitize=thread calls arrive in trace.cpp; shadow.cpp decides about races,
// findings.cpp keeps what is wrong, replay.cpp groups the lanes of a warp into requests and counts,
// report.cpp writes it all down.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "executor.h"
#include "shadow.h"

namespace cuemu {

enum Access : uint8_t { kBlockEntry, kRead, kWrite, kAtomic };
enum Space : uint8_t { kGlobal, kShared, kVariable, kLocal };

// What Python asks for, followed by sampled blocks, extents and watched sites (all uint64).
struct TraceRequest {
    uint32_t check_races, adversary;
    uint32_t request_limit, sampled_count;  // sampled_count 0xffffffff: every block
    uint64_t event_limit, adversary_seed;
    uint32_t extent_count, watch_count;
};

struct Extent {
    uint64_t low, high;
    int index;  // Python's number for it; shared arrays: index into Tracer::shared_names
};

struct Event {
    uint64_t key;  // deepest call first, then lowest address, then what kind of access
    uint64_t address;
};

struct LaneLog {
    std::vector<Event> events;
    uint16_t depth = 0;
    bool fenced = false;
};

struct Site {
    uint64_t pc;
    Access access;
    Space space;
    uint8_t size;
    uint64_t requests, lanes, sectors, ideal_sectors, wavefronts, ideal_wavefronts, same_address;
};

struct Run {  // of a basic block by a warp
    uint64_t runs, lanes;
};

struct RawRequest {
    uint32_t site, mask;
    uint64_t block;
    uint32_t warp;
    uint64_t address[kWarp];
};

struct Finding {
    std::string kind, message, details;
    uint64_t pc = 0, other_pc = 0;
    uint3 block{}, thread{}, other_block{}, other_thread{};
    bool has_other = false;
    uint64_t address = 0;
    uint32_t size = 0;
    Access access = kRead, other_access = kRead;
    Space space = kGlobal;
    int array = -1;         // of the extent it lies in or nearest to
    int64_t offset = 0;     // bytes from that array's start
    uint64_t array_size = 0;
    uint64_t count = 0;
};

struct LogEntry {  // one access at a watched site, for playing a race back
    uint64_t pc, address, before, after;
    uint32_t block, thread;
    Access access;
    uint8_t size;
    bool stale;
};

struct Race {
    Conflict conflict;
    uint64_t address, pc;
    unsigned size;
    Space space;
    Access access;
    uint3 block, thread;
};

class Tracer {
   public:
    Tracer(Launch& launch, const char* request);
    static thread_local Tracer* active;

    // `goes_on`: one more piece of the access announced last
    void access(void* address, unsigned size, Access access, const void* site, bool goes_on = false);
    void compared(void* address, unsigned size, uint64_t expected);  // by a compare-and-swap to come
    void basic_block(const void* site);
    void function(int step);

    void block_begins(Executor& e);
    void block_ends(Executor& e);
    void thread_begins(Thread& thread);
    void thread_ends(Executor& e, Thread& thread);
    void barrier_completes(Executor& e, unsigned arrived);
    void warp_op_completes(Executor& e, unsigned warp, uint32_t group);
    void shuffle_from_absent(Executor& e, Thread& lane, unsigned source);
    void finding_here(Executor& e, const char* kind, const std::string& message, const void* site);
    void shifts_too_far(unsigned bits, int64_t places, const void* site);
    void divides_by_zero(const void* site);
    const char* own_array(const char* file, unsigned line, unsigned column) const;  // nullptr: another's
    void leaves_own_array(const char* array, const char* type, int64_t index, const void* site);
    void fence(Executor& e, int scope);
    void arrives(Executor& e, CuemuPhases& barrier, const void* site);
    void waited(Executor& e, const CuemuPhases& barrier, uint32_t phase);
    void deadlock(Executor& e, const std::string& details);
    const void* last_site() const { return last_site_; }
    std::string report(const std::string& failure, const std::string& printed);

   private:
    Space classify(uint64_t address) const;
    bool check_bounds(uint64_t address, unsigned size, Space space, Access access, uint64_t pc);
    void check_initialised(uint64_t address, unsigned size, Access access, uint64_t pc);
    void check_race(uint64_t address, unsigned size, Space space, Access access, uint64_t pc);
    void settle();  // what had to wait until the last announced access had happened
    void adversary_before(uint64_t address, unsigned size, Space space, Access access, uint64_t pc);
    Finding* add(const char* kind, uint64_t pc, uint64_t other_pc);
    Finding* add_here(const char* kind, uint64_t pc, uint64_t other_pc = 0);
    void describe_place(Finding& finding, uint64_t address, Space space) const;
    void report_race(const Race& race);
    void report_unconfirmed(const Thread* of);  // nullptr: of every thread
    void replay(unsigned warp);
    void count_request(const Event* const* heads, uint32_t mask);
    Site& site_for(uint64_t pc, Access access, Space space, uint8_t size);
    uint64_t random();
    uint3 thread_index(uint32_t linear) const;
    uint3 block_index(uint64_t linear) const;

    Launch& launch_;
    const Module& module_;
    TraceRequest request_;
    std::vector<uint64_t> sampled_;
    std::vector<Extent> extents_;         // global memory the kernel may touch, sorted
    std::vector<Extent> shared_extents_;  // rebased at each block begin
    std::vector<Extent> shared_offsets_, variable_extents_;
    std::vector<std::string> shared_names_, variable_names_;
    std::unordered_set<uint64_t> watched_;
    const Extent* last_extent_[64] = {};  // by site: each touches one array again and again
    uint64_t shared_anchor_ = 0, shared_low_ = 0, shared_high_ = 0;
    std::vector<uint8_t> initialised_;

    const void* last_site_ = nullptr;  // where the kernel was when it last told anything
    bool recording_ = false, truncated_ = false, disturbed_ = false;
    uint64_t event_count_ = 0, blocks_traced_ = 0, buffered_ = 0;
    std::vector<LaneLog> logs_;
    std::vector<uint32_t> site_of_;  // by pc and space, 0: none yet
    std::vector<Site> sites_;
    std::unordered_map<uint64_t, Run> runs_;
    std::vector<RawRequest> requests_;
    std::vector<uint32_t> kept_per_site_;
    std::vector<Finding> findings_;
    std::map<std::string, size_t> finding_of_;
    RaceShadow shadow_;
    uint64_t random_state_ = 0;

    struct Pending {  // a second write to the same place: harmless if it wrote the same value
        Race race;
        uint64_t old[2];
    };
    std::vector<Pending> pending_;
    struct Unconfirmed {  // a read beside an atomic: harmless if the reader's compare-and-swap meets its value
        Race race;
        unsigned reader;
        uint64_t value;
    };
    std::vector<Unconfirmed> unconfirmed_;
    std::vector<LogEntry> log_;
    bool log_waits_ = false;
    struct Restore {  // the adversary showed this thread an older value
        bool waits = false;
        uint64_t address, latest, shown;
        unsigned size;
    } restore_;
    struct Older {
        uint64_t block, before;
    };
    std::unordered_map<uint64_t, Older> older_;
};

extern uint64_t device_low, device_high, device_mapped_high;  // set once by main

}  // namespace cuemu
