// cub's block-wide and warp-wide collectives. As in cub, a reduction's result is thread 0's alone,
// and temporary storage may be used again only behind a barrier.
#pragma once

namespace cub {

struct Sum {
    template <class T> CUEMU_MEMBER_FUNCTION T operator()(const T& a, const T& b) const { return a + b; }
};
struct Max {
    template <class T> CUEMU_MEMBER_FUNCTION T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
struct Min {
    template <class T> CUEMU_MEMBER_FUNCTION T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

namespace details {
template <class T, int N> struct alignas(T) alignas(16) Storage {  // of types with constructors, too
    char bytes[N * sizeof(T)];
    CUEMU_MEMBER_FUNCTION T& operator[](int i) { return reinterpret_cast<T*>(bytes)[i]; }
};
CUEMU_MEMBER_FUNCTION int rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
}  // namespace details

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1> class BlockReduce {
    static constexpr int kThreads = X * Y * Z;

   public:
    using TempStorage = details::Storage<T, kThreads>;
    CUEMU_MEMBER_FUNCTION explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

    template <class Op> CUEMU_MEMBER_FUNCTION T Reduce(T value, Op op, int valid = kThreads) {
        const int rank = details::rank();
        storage_[rank] = value;
        __syncthreads();
        for (int step = 1; step < kThreads; step *= 2) {
            if (rank % (2 * step) == 0 && rank + step < valid) storage_[rank] = op(storage_[rank], storage_[rank + step]);
            __syncthreads();
        }
        return rank == 0 ? storage_[0] : value;
    }
    template <int Items, class Op> CUEMU_MEMBER_FUNCTION T Reduce(T (&values)[Items], Op op) {
        T value = values[0];
        for (int i = 1; i < Items; ++i) value = op(value, values[i]);
        return Reduce(value, op);
    }
    CUEMU_MEMBER_FUNCTION T Sum(T value, int valid = kThreads) { return Reduce(value, cub::Sum(), valid); }
    template <int Items> CUEMU_MEMBER_FUNCTION T Sum(T (&values)[Items]) { return Reduce(values, cub::Sum()); }

   private:
    TempStorage& storage_;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1> class BlockScan {
    static constexpr int kThreads = X * Y * Z;

   public:
    using TempStorage = details::Storage<T, kThreads>;
    CUEMU_MEMBER_FUNCTION explicit BlockScan(TempStorage& storage) : storage_(storage) {}

    template <class Op> CUEMU_MEMBER_FUNCTION void InclusiveScan(T in, T& out, Op op, T& aggregate) {
        out = inclusive(in, op);
        aggregate = storage_[kThreads - 1];
    }
    template <class Op> CUEMU_MEMBER_FUNCTION void InclusiveScan(T in, T& out, Op op) { out = inclusive(in, op); }
    template <class Op> CUEMU_MEMBER_FUNCTION void ExclusiveScan(T in, T& out, T initial, Op op) {
        inclusive(in, op);
        out = details::rank() ? op(initial, storage_[details::rank() - 1]) : initial;
    }
    template <class Op> CUEMU_MEMBER_FUNCTION void ExclusiveScan(T in, T& out, T initial, Op op, T& aggregate) {
        ExclusiveScan(in, out, initial, op);
        aggregate = storage_[kThreads - 1];
    }
    CUEMU_MEMBER_FUNCTION void InclusiveSum(T in, T& out) { InclusiveScan(in, out, Sum()); }
    CUEMU_MEMBER_FUNCTION void InclusiveSum(T in, T& out, T& aggregate) { InclusiveScan(in, out, Sum(), aggregate); }
    CUEMU_MEMBER_FUNCTION void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T(), Sum()); }
    CUEMU_MEMBER_FUNCTION void ExclusiveSum(T in, T& out, T& aggregate) { ExclusiveScan(in, out, T(), Sum(), aggregate); }
    template <int Items> CUEMU_MEMBER_FUNCTION void ExclusiveSum(T (&in)[Items], T (&out)[Items]) {
        T total = T(), before;
        for (int i = 0; i < Items; ++i) total = total + in[i];
        ExclusiveSum(total, before);
        for (int i = 0; i < Items; ++i) {
            const T here = in[i];  // `out` may be `in`
            out[i] = before;
            before = before + here;
        }
    }
    template <int Items> CUEMU_MEMBER_FUNCTION void InclusiveSum(T (&in)[Items], T (&out)[Items]) {
        T total = T(), before;
        for (int i = 0; i < Items; ++i) total = total + in[i];
        ExclusiveSum(total, before);
        for (int i = 0; i < Items; ++i) out[i] = before = before + in[i];
    }

   private:
    template <class Op> CUEMU_MEMBER_FUNCTION T inclusive(T value, Op op) {
        const int rank = details::rank();
        storage_[rank] = value;
        __syncthreads();
        for (int step = 1; step < kThreads; step *= 2) {
            const bool later = rank >= step;
            const T before = later ? storage_[rank - step] : value;
            __syncthreads();
            if (later) storage_[rank] = value = op(before, value);
            __syncthreads();
        }
        return value;
    }
    TempStorage& storage_;
};

template <class T, int Lanes = 32> class WarpReduce {
   public:
    struct TempStorage {};
    CUEMU_MEMBER_FUNCTION explicit WarpReduce(TempStorage&) {}
    template <class Op> CUEMU_MEMBER_FUNCTION T Reduce(T value, Op op, int valid = Lanes) {
        const int lane = details::rank() % Lanes;
        for (int step = 1; step < Lanes; step *= 2) {
            const T other = __shfl_down_sync(CUEMU_FULL, value, step, Lanes);
            if (lane + step < valid) value = op(value, other);
        }
        return value;
    }
    CUEMU_MEMBER_FUNCTION T Sum(T value, int valid = Lanes) { return Reduce(value, cub::Sum(), valid); }
};

template <class T, int Lanes = 32> class WarpScan {
   public:
    struct TempStorage {};
    CUEMU_MEMBER_FUNCTION explicit WarpScan(TempStorage&) {}
    template <class Op> CUEMU_MEMBER_FUNCTION void InclusiveScan(T in, T& out, Op op) {
        const int lane = details::rank() % Lanes;
        for (int step = 1; step < Lanes; step *= 2) {
            const T before = __shfl_up_sync(CUEMU_FULL, in, step, Lanes);
            if (lane >= step) in = op(before, in);
        }
        out = in;
    }
    template <class Op> CUEMU_MEMBER_FUNCTION void ExclusiveScan(T in, T& out, T initial, Op op) {
        T whole;
        InclusiveScan(in, whole, op);
        const T before = __shfl_up_sync(CUEMU_FULL, whole, 1, Lanes);
        out = details::rank() % Lanes ? op(initial, before) : initial;
    }
    CUEMU_MEMBER_FUNCTION void InclusiveSum(T in, T& out) { InclusiveScan(in, out, Sum()); }
    CUEMU_MEMBER_FUNCTION void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T(), Sum()); }
};

}  // namespace cub
