// Thread blocks and tiles of them. Grid-wide and hardware-chosen groups are refused by name.
#pragma once

#define this_grid cuemu_unsupported_grid_sync
#define this_multi_grid cuemu_unsupported_multi_grid
#define this_cluster cuemu_unsupported_thread_block_clusters
#define coalesced_threads cuemu_unsupported_coalesced_threads
#define grid_group cuemu_unsupported_grid_sync
#define memcpy_async cuemu_unsupported_asynchronous_copies

namespace cooperative_groups {

class thread_block {
   public:
    CUEMU_MEMBER_FUNCTION void sync() { cuemu_block_barrier(CUEMU_SYNC, 0); }
    CUEMU_MEMBER_FUNCTION unsigned thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    CUEMU_MEMBER_FUNCTION unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    CUEMU_MEMBER_FUNCTION unsigned num_threads() { return size(); }
    CUEMU_MEMBER_FUNCTION dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    CUEMU_MEMBER_FUNCTION dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    CUEMU_MEMBER_FUNCTION dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    CUEMU_MEMBER_FUNCTION dim3 dim_threads() { return group_dim(); }
};
CUEMU_INLINE thread_block this_thread_block() { return {}; }

template <unsigned Size, class Parent = thread_block> class thread_block_tile {
    static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "a tile is a power of two, up to a warp");

   public:
    CUEMU_MEMBER_FUNCTION unsigned thread_rank() const { return rank() % Size; }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    CUEMU_MEMBER_FUNCTION unsigned meta_group_rank() const { return rank() / Size; }
    CUEMU_MEMBER_FUNCTION unsigned meta_group_size() const {
        return (blockDim.x * blockDim.y * blockDim.z + Size - 1) / Size;
    }
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

   private:
    CUEMU_MEMBER_FUNCTION static unsigned rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    CUEMU_MEMBER_FUNCTION static unsigned first_lane() { return rank() % 32 / Size * Size; }
    CUEMU_MEMBER_FUNCTION static unsigned mask() {
        return (Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1) << first_lane();
    }
};

template <unsigned Size, class Parent>
CUEMU_INLINE thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return {};
}
template <class Group> CUEMU_INLINE void sync(Group& group) { group.sync(); }
CUEMU_INLINE void sync(thread_block group) { group.sync(); }

template <class T> struct plus {
    CUEMU_MEMBER_FUNCTION T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
    CUEMU_MEMBER_FUNCTION T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
    CUEMU_MEMBER_FUNCTION T operator()(T a, T b) const { return a < b ? b : a; }
};
template <unsigned Size, class Parent, class T, class Op>
CUEMU_INLINE T reduce(const thread_block_tile<Size, Parent>& tile, T value, Op op) {
    for (unsigned step = Size / 2; step > 0; step /= 2) value = op(value, tile.shfl_xor(value, (int)step));
    return value;
}

}  // namespace cooperative_groups
