// Groups of threads: blocks, tiles, the lanes that are together, and grids launched cooperatively.
#pragma once
#include "cuemu/copies.h"

#define this_multi_grid cuemu_unsupported_multi_grid
#define this_cluster cuemu_unsupported_thread_block_clusters

namespace cooperative_groups {

namespace details {
CUEMU_MEMBER_FUNCTION unsigned rank_in_block() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
CUEMU_MEMBER_FUNCTION unsigned block_size() { return blockDim.x * blockDim.y * blockDim.z; }
CUEMU_MEMBER_FUNCTION unsigned block_rank() {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
CUEMU_MEMBER_FUNCTION unsigned lanes(unsigned size, unsigned first) {
    return (size >= 32 ? 0xffffffffu : (1u << size) - 1) << first;
}
}  // namespace details

// Any of the groups below, whose kind is known only when the program runs.
class thread_group {
   public:
    CUEMU_MEMBER_FUNCTION void sync() const { mask_ ? __syncwarp(mask_) : __syncthreads(); }
    CUEMU_MEMBER_FUNCTION unsigned size() const { return size_; }
    CUEMU_MEMBER_FUNCTION unsigned num_threads() const { return size_; }
    CUEMU_MEMBER_FUNCTION unsigned thread_rank() const { return rank_; }
    CUEMU_MEMBER_FUNCTION bool is_valid() const { return true; }
    CUEMU_MEMBER_FUNCTION thread_group(unsigned mask, unsigned size, unsigned rank)
        : mask_(mask), size_(size), rank_(rank) {}
    CUEMU_MEMBER_FUNCTION unsigned mask_of() const { return mask_; }

   private:
    unsigned mask_, size_, rank_;  // mask 0: the whole block
};

class thread_block {
   public:
    CUEMU_MEMBER_FUNCTION static void sync() { cuemu_block_barrier(CUEMU_SYNC, 0); }
    CUEMU_MEMBER_FUNCTION static unsigned thread_rank() { return details::rank_in_block(); }
    CUEMU_MEMBER_FUNCTION static unsigned size() { return details::block_size(); }
    CUEMU_MEMBER_FUNCTION static unsigned num_threads() { return size(); }
    CUEMU_MEMBER_FUNCTION static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    CUEMU_MEMBER_FUNCTION static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    CUEMU_MEMBER_FUNCTION static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    CUEMU_MEMBER_FUNCTION static dim3 dim_threads() { return group_dim(); }
    CUEMU_MEMBER_FUNCTION operator thread_group() const { return {0, size(), thread_rank()}; }
};
CUEMU_INLINE thread_block this_thread_block() { return {}; }

// Room in which the warps of a tile meet, if a tile has several.
struct tile_room {
    unsigned long long words[32][2];  // of each warp
    CuemuPhases phases[30];           // of 16 tiles of 64 threads, 8 of 128, 4 of 256, 2 of 512
};
template <unsigned MaxBlockSize = 1024> struct block_tile_memory : tile_room {};
class thread_block_with_memory : public thread_block {
   public:
    CUEMU_MEMBER_FUNCTION explicit thread_block_with_memory(tile_room* memory) : memory_(memory) {}
    CUEMU_MEMBER_FUNCTION tile_room* memory() const { return memory_; }

   private:
    tile_room* memory_;
};
template <unsigned Size> CUEMU_INLINE thread_block_with_memory this_thread_block(block_tile_memory<Size>& memory) {
    return thread_block_with_memory(&memory);
}

class grid_group {
   public:
    CUEMU_MEMBER_FUNCTION static void sync() { cuemu_block_grid(); }
    CUEMU_MEMBER_FUNCTION static bool is_valid() { return true; }
    CUEMU_MEMBER_FUNCTION static unsigned long long size() { return (unsigned long long)num_blocks() * details::block_size(); }
    CUEMU_MEMBER_FUNCTION static unsigned long long num_threads() { return size(); }
    CUEMU_MEMBER_FUNCTION static unsigned long long thread_rank() {
        return (unsigned long long)block_rank() * details::block_size() + details::rank_in_block();
    }
    CUEMU_MEMBER_FUNCTION static unsigned num_blocks() { return gridDim.x * gridDim.y * gridDim.z; }
    CUEMU_MEMBER_FUNCTION static unsigned block_rank() { return details::block_rank(); }
    CUEMU_MEMBER_FUNCTION static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    CUEMU_MEMBER_FUNCTION static dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
    CUEMU_MEMBER_FUNCTION static dim3 dim_blocks() { return group_dim(); }
};
CUEMU_INLINE grid_group this_grid() { return {}; }

template <unsigned Size, class Parent = thread_block> class thread_block_tile {
    static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "a tile is a power of two, up to a warp");

   public:
    CUEMU_MEMBER_FUNCTION thread_block_tile() {}
    template <class Other> CUEMU_MEMBER_FUNCTION thread_block_tile(const thread_block_tile<Size, Other>&) {}
    CUEMU_MEMBER_FUNCTION static unsigned thread_rank() { return details::rank_in_block() % Size; }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    CUEMU_MEMBER_FUNCTION static unsigned meta_group_rank() { return details::rank_in_block() / Size; }
    CUEMU_MEMBER_FUNCTION static unsigned meta_group_size() { return (details::block_size() + Size - 1) / Size; }
    CUEMU_MEMBER_FUNCTION void sync() const { __syncwarp(mask()); }
    template <class T> CUEMU_MEMBER_FUNCTION T shfl(T v, int source) const {
        return __shfl_sync(mask(), v, source, Size);
    }
    template <class T> CUEMU_MEMBER_FUNCTION T shfl_up(T v, unsigned delta) const {
        return __shfl_up_sync(mask(), v, delta, Size);
    }
    template <class T> CUEMU_MEMBER_FUNCTION T shfl_down(T v, unsigned delta) const {
        return __shfl_down_sync(mask(), v, delta, Size);
    }
    template <class T> CUEMU_MEMBER_FUNCTION T shfl_xor(T v, int lanes) const {
        return __shfl_xor_sync(mask(), v, lanes, Size);
    }
    CUEMU_MEMBER_FUNCTION int any(int p) const { return __any_sync(mask(), p); }
    CUEMU_MEMBER_FUNCTION int all(int p) const { return __all_sync(mask(), p); }
    CUEMU_MEMBER_FUNCTION unsigned ballot(int p) const {
        return (__ballot_sync(mask(), p) & mask()) >> first_lane();
    }
    template <class T> CUEMU_MEMBER_FUNCTION unsigned match_any(T v) const {
        return __match_any_sync(mask(), v) >> first_lane();
    }
    template <class T> CUEMU_MEMBER_FUNCTION unsigned match_all(T v, int& all) const {
        return __match_all_sync(mask(), v, &all) >> first_lane();
    }
    CUEMU_MEMBER_FUNCTION operator thread_group() const { return {mask(), Size, thread_rank()}; }

   private:
    CUEMU_MEMBER_FUNCTION static unsigned first_lane() { return details::rank_in_block() % 32 / Size * Size; }
    CUEMU_MEMBER_FUNCTION static unsigned mask() { return details::lanes(Size, first_lane()); }
};

// A tile of several warps, which wait for each other alone. The whole block makes its tiles.
template <unsigned Size> class many_warp_tile {
    static_assert(Size >= 64 && Size <= 512 && (Size & (Size - 1)) == 0, "a tile is a power of two, up to 512 threads");

   public:
    CUEMU_MEMBER_FUNCTION explicit many_warp_tile(tile_room* room) : words_(room->words), phases_(room->phases + 32 - 2048 / Size) {
        thread_block::sync();  // nobody waits in tiles of before
        for (unsigned tile = 0; details::rank_in_block() == 0 && tile < meta_group_size(); ++tile) {
            const unsigned left = details::block_size() - tile * Size, threads = left < Size ? left : Size;
            phases_[tile].expected = phases_[tile].left = threads;
            phases_[tile].phase = 0;
        }
        thread_block::sync();
    }
    CUEMU_MEMBER_FUNCTION static unsigned thread_rank() { return details::rank_in_block() % Size; }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    CUEMU_MEMBER_FUNCTION static unsigned meta_group_rank() { return details::rank_in_block() / Size; }
    CUEMU_MEMBER_FUNCTION static unsigned meta_group_size() { return (details::block_size() + Size - 1) / Size; }
    CUEMU_MEMBER_FUNCTION void sync() const {
        CuemuPhases* own = phases_ + meta_group_rank();
        cuemu_block_wait(own, cuemu_block_arrive(own, 1, 0));
    }
    template <class T, class Op> CUEMU_MEMBER_FUNCTION T reduced(T value, Op op) const {
        static_assert(sizeof(T) <= sizeof(*words_), "a value of up to 16 bytes");
        for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(CUEMU_FULL, value, step));
        const unsigned warp = details::rank_in_block() / 32, first = warp / (Size / 32) * (Size / 32);
        if (details::rank_in_block() % 32 == 0) *(T*)words_[warp] = value;
        sync();
        T result = *(const T*)words_[first];
        for (unsigned other = first + 1; other < first + Size / 32; ++other) result = op(result, *(const T*)words_[other]);
        sync();
        return result;
    }

   private:
    unsigned long long (*words_)[2];
    CuemuPhases* phases_;
};

// Some lanes of a warp; the n-th of them has rank n.
class coalesced_group {
   public:
    CUEMU_MEMBER_FUNCTION explicit coalesced_group(unsigned mask) : mask_(mask) {}
    CUEMU_MEMBER_FUNCTION unsigned size() const { return (unsigned)__builtin_popcount(mask_); }
    CUEMU_MEMBER_FUNCTION unsigned num_threads() const { return size(); }
    CUEMU_MEMBER_FUNCTION unsigned thread_rank() const { return rank_of(lane()); }
    CUEMU_MEMBER_FUNCTION void sync() const { __syncwarp(mask_); }
    template <class T> CUEMU_MEMBER_FUNCTION T shfl(T v, unsigned source) const {
        return __shfl_sync(mask_, v, lane_of(source % size()));
    }
    template <class T> CUEMU_MEMBER_FUNCTION T shfl_up(T v, unsigned delta) const {
        const unsigned rank = thread_rank();
        return __shfl_sync(mask_, v, lane_of(rank < delta ? rank : rank - delta));
    }
    template <class T> CUEMU_MEMBER_FUNCTION T shfl_down(T v, unsigned delta) const {
        const unsigned rank = thread_rank();
        return __shfl_sync(mask_, v, lane_of(rank + delta < size() ? rank + delta : rank));
    }
    CUEMU_MEMBER_FUNCTION int any(int p) const { return __any_sync(mask_, p); }
    CUEMU_MEMBER_FUNCTION int all(int p) const { return __all_sync(mask_, p); }
    CUEMU_MEMBER_FUNCTION unsigned ballot(int p) const { return packed(__ballot_sync(mask_, p)); }
    template <class T> CUEMU_MEMBER_FUNCTION unsigned match_any(T v) const { return packed(__match_any_sync(mask_, v)); }
    CUEMU_MEMBER_FUNCTION unsigned meta_group_size() const { return 1; }
    CUEMU_MEMBER_FUNCTION unsigned meta_group_rank() const { return 0; }
    CUEMU_MEMBER_FUNCTION operator thread_group() const { return {mask_, size(), thread_rank()}; }

   private:
    CUEMU_MEMBER_FUNCTION static unsigned lane() { return details::rank_in_block() % 32; }
    CUEMU_MEMBER_FUNCTION unsigned rank_of(unsigned lane) const {
        return (unsigned)__builtin_popcount(mask_ & ((1u << lane) - 1));
    }
    CUEMU_MEMBER_FUNCTION int lane_of(unsigned rank) const {
        unsigned left = mask_;
        for (; rank > 0; --rank) left &= left - 1;
        return __builtin_ctz(left);
    }
    CUEMU_MEMBER_FUNCTION unsigned packed(unsigned lanes) const {
        unsigned ranks = 0;
        for (unsigned left = lanes & mask_; left; left &= left - 1) ranks |= 1u << rank_of((unsigned)__builtin_ctz(left));
        return ranks;
    }
    unsigned mask_;
};
// Those of the warp that come to this line before anything else that waits for others.
CUEMU_INLINE coalesced_group coalesced_threads() {
    return coalesced_group((unsigned)cuemu_block_warp(CUEMU_GATHER, CUEMU_FULL, 0, 0, 32));
}

template <unsigned Size, class Parent>
CUEMU_INLINE thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return {};
}
template <unsigned Size> CUEMU_INLINE auto tiled_partition(const thread_block_with_memory& block) {
    if constexpr (Size > 32)
        return many_warp_tile<Size>(block.memory());
    else
        return thread_block_tile<Size, thread_block>();
}
// A size that is known only when the program runs: a part of a warp, or of a part of one.
template <class Group> CUEMU_INLINE thread_group tiled_partition(const Group& group, unsigned size) {
    const thread_group parent = group;
    const unsigned rank = parent.thread_rank(), lane = details::rank_in_block() % 32;
    return thread_group(details::lanes(size, lane - rank % size), size, rank % size);
}
template <class Group> CUEMU_INLINE coalesced_group binary_partition(const Group& group, bool yes) {
    const unsigned mask = thread_group(group).mask_of(), with = __ballot_sync(mask, yes) & mask;
    return coalesced_group(yes ? with : mask & ~with);
}
template <class Group, class Label> CUEMU_INLINE coalesced_group labeled_partition(const Group& group, Label label) {
    return coalesced_group(__match_any_sync(thread_group(group).mask_of(), label));
}
template <class Group> CUEMU_INLINE void sync(const Group& group) { group.sync(); }

#define CUEMU_OPERATION(NAME, RESULT)                                       \
    template <class T> struct NAME {                                        \
        CUEMU_MEMBER_FUNCTION T operator()(T a, T b) const { return RESULT; } \
    };
CUEMU_OPERATION(plus, a + b)
CUEMU_OPERATION(less, b < a ? b : a)
CUEMU_OPERATION(greater, a < b ? b : a)
CUEMU_OPERATION(bit_and, a & b)
CUEMU_OPERATION(bit_or, a | b)
CUEMU_OPERATION(bit_xor, a ^ b)
#undef CUEMU_OPERATION

template <unsigned Size, class Parent, class T, class Op>
CUEMU_INLINE T reduce(const thread_block_tile<Size, Parent>& tile, T value, Op op) {
    for (unsigned step = Size / 2; step > 0; step /= 2) value = op(value, tile.shfl_xor(value, (int)step));
    return value;
}
template <unsigned Size, class T, class Op> CUEMU_INLINE T reduce(const many_warp_tile<Size>& tile, T value, Op op) {
    return tile.reduced(value, op);
}
template <class T, class Op> CUEMU_INLINE T reduce(const coalesced_group& group, T value, Op op) {
    T result = group.shfl(value, 0);
    for (unsigned rank = 1; rank < group.size(); ++rank) result = op(result, group.shfl(value, rank));
    return result;
}
template <class Group, class T, class Op> CUEMU_INLINE T inclusive_scan(const Group& group, T value, Op op) {
    for (unsigned step = 1; step < group.size(); step *= 2) {
        const T before = group.shfl_up(value, step);
        if (group.thread_rank() >= step) value = op(before, value);
    }
    return value;
}
template <class Group, class T> CUEMU_INLINE T inclusive_scan(const Group& group, T value) {
    return inclusive_scan(group, value, plus<T>());
}
template <class Group, class T, class Op> CUEMU_INLINE T exclusive_scan(const Group& group, T value, Op op) {
    const T before = group.shfl_up(inclusive_scan(group, value, op), 1);
    return group.thread_rank() ? before : T();
}
template <class Group, class T> CUEMU_INLINE T exclusive_scan(const Group& group, T value) {
    return exclusive_scan(group, value, plus<T>());
}

// Copies that a GPU makes in the background; a wait is for those of the whole group.
template <class Group, class T, class Size>
CUEMU_INLINE void memcpy_async(const Group& group, T* to, const T* from, Size bytes) {
    cuemu::copy_share((unsigned)group.thread_rank(), (unsigned)group.size(), to, from, (size_t)bytes);
    cuemu_copy_commit();
}
template <class Group, class T, class To, class From>
CUEMU_INLINE void memcpy_async(const Group& group, T* to, To room, const T* from, From count) {
    memcpy_async(group, to, from, ((size_t)room < (size_t)count ? (size_t)room : (size_t)count) * sizeof(T));
}
template <class Group> CUEMU_INLINE void wait(const Group& group) {
    cuemu_block_copy_wait(0, 1);
    group.sync();
}
template <unsigned Stages, class Group> CUEMU_INLINE void wait_prior(const Group& group) {
    cuemu_block_copy_wait(Stages, 0);
    group.sync();
}

}  // namespace cooperative_groups
