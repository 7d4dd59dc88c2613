// The allocator's hot path in C++ with std::set, for speed alone: the same rounding, pools, order
// (stream, size, birth, address), best fit, split, merge, set of active blocks, map of addresses,
// statistics and locks as PyTorch's. No events, settings or growing segments.
// Built as a shared object: replay() runs a trace on a fresh allocator, see bench_allocator.py.
#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

using std::int64_t;
constexpr int64_t KIB = 1024, MIB = 1024 * KIB;

struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void increase(int64_t n) { current += n; allocated += n; peak = std::max(peak, current); }
  void decrease(int64_t n) { current -= n; freed += n; }
};
using StatArray = std::array<Stat, 3>;  // both pools, small, large

struct Block {
  int64_t stream, address, size, birth, requested;
  bool small, allocated;
  Block *previous, *next;
};
struct Order {
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    if (a->birth != b->birth) return a->birth < b->birth;
    return a->address < b->address;
  }
};

class Allocator {
  std::recursive_mutex mutex;
  std::mutex live_mutex;
  std::set<Block*, Order> pools[2];
  std::unordered_set<Block*> active_blocks;
  std::unordered_map<int64_t, Block*> live;
  int64_t top = 0x600000000000, births = 0;
  StatArray allocation, allocated_bytes, active, active_bytes, requested_bytes, inactive_split,
      inactive_split_bytes, segment, reserved_bytes;

  static void up(StatArray& stat, bool small, int64_t n) {
    stat[0].increase(n);
    stat[small ? 1 : 2].increase(n);
  }
  static void down(StatArray& stat, bool small, int64_t n) {
    stat[0].decrease(n);
    stat[small ? 1 : 2].decrease(n);
  }
  static void change(StatArray& stat, bool small, int64_t n) {
    if (n > 0) up(stat, small, n);
    if (n < 0) down(stat, small, -n);
  }

  Block* grow(int64_t size, bool small, int64_t stream) {
    int64_t bytes = small ? 2 * MIB : size < 10 * MIB ? 20 * MIB : (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    Block* block = new Block{stream, top, bytes, ++births, 0, small, false, nullptr, nullptr};
    top += bytes;
    up(segment, small, 1);
    up(reserved_bytes, small, bytes);
    return block;
  }
  int64_t absorb(Block* block, Block* other) {
    if (!other || other->allocated) return 0;
    pools[block->small].erase(other);
    if (other == block->previous) {
      block->address = other->address;
      block->previous = other->previous;
      if (block->previous) block->previous->next = block;
    } else {
      block->next = other->next;
      if (block->next) block->next->previous = block;
    }
    int64_t size = other->size;
    block->size += size;
    delete other;
    return size;
  }

 public:
  int64_t malloc(int64_t requested, int64_t stream = 0) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    int64_t size = std::max<int64_t>(512, (requested + 511) / 512 * 512);
    bool small = size <= MIB;
    auto& pool = pools[small];
    Block key{stream, 0, size, 0, 0, small, false, nullptr, nullptr};
    auto found = pool.lower_bound(&key);
    Block* block;
    if (found == pool.end() || (*found)->stream != stream) {
      block = grow(size, small, stream);
    } else {
      block = *found;
      pool.erase(found);
    }
    bool was_split = block->previous || block->next;
    int64_t rest_size = block->size - size;
    if (small ? rest_size >= 512 : rest_size > MIB) {
      Block* rest = new Block{stream, block->address + size, rest_size, block->birth, 0, small, false, block, block->next};
      if (rest->next) rest->next->previous = rest;
      block->next = rest;
      block->size = size;
      pool.insert(rest);
      if (was_split) {
        down(inactive_split_bytes, small, size);
      } else {
        up(inactive_split_bytes, small, rest_size);
        up(inactive_split, small, 1);
      }
    } else if (was_split) {
      down(inactive_split_bytes, small, block->size);
      down(inactive_split, small, 1);
    }
    block->allocated = true;
    block->requested = requested;
    active_blocks.insert(block);
    {
      std::lock_guard<std::mutex> live_lock(live_mutex);
      live[block->address] = block;
    }
    up(allocation, small, 1);
    up(allocated_bytes, small, block->size);
    up(active, small, 1);
    up(active_bytes, small, block->size);
    up(requested_bytes, small, requested);
    return block->address;
  }

  void free(int64_t address) {
    Block* block;
    {
      std::lock_guard<std::mutex> live_lock(live_mutex);
      auto found = live.find(address);
      block = found->second;
      live.erase(found);
    }
    std::lock_guard<std::recursive_mutex> lock(mutex);
    block->allocated = false;
    bool small = block->small;
    int64_t size = block->size, splits = 0, split_bytes = 0;
    down(allocation, small, 1);
    down(allocated_bytes, small, size);
    for (Block* other : {block->previous, block->next}) {
      if (int64_t absorbed = absorb(block, other)) {
        splits -= 1;
        split_bytes -= absorbed;
      }
    }
    active_blocks.erase(block);
    pools[small].insert(block);
    if (block->previous || block->next) {
      splits += 1;
      split_bytes += block->size;
    }
    change(inactive_split, small, splits);
    change(inactive_split_bytes, small, split_bytes);
    down(active, small, 1);
    down(active_bytes, small, size);
    down(requested_bytes, small, block->requested);
  }
};

// events: > 0 allocate so many bytes, <= 0 free the request of that number, counted from 0.
// Returns a checksum of all addresses.
extern "C" int64_t replay(const int64_t* events, int64_t count) {
  Allocator allocator;
  std::vector<int64_t> addresses;
  for (int64_t i = 0; i < count; ++i) {
    if (events[i] > 0) {
      addresses.push_back(allocator.malloc(events[i]));
    } else {
      allocator.free(addresses[-events[i]]);
    }
  }
  int64_t checksum = 0;
  for (int64_t address : addresses) checksum = (checksum * 31 + address) % 1000000007;
  return checksum;
}
