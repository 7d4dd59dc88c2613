// expect: 11 multiples of three, added by 1 atomic
// expect: inclusive scan: 1 3 6 10 15 21 28 36
// expect: exclusive scan: 0 1 3 6 10 15 21 28
// expect: a run-time tile of 4 sums 22
// The lanes that took a branch together, scans over a tile, and a tile whose size is a variable.
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
#include <cstdio>

namespace cg = cooperative_groups;

__device__ int add_together(int* counter) {  // one atomic for all lanes that are here
    cg::coalesced_group here = cg::coalesced_threads();
    int before = 0;
    if (here.thread_rank() == 0) before = atomicAdd(counter, here.size());
    return here.shfl(before, 0) + here.thread_rank();
}

__global__ void count(int* counters, int* atomics) {
    if (threadIdx.x % 3 != 0) return;
    if (add_together(counters) == 0) atomicAdd(atomics, 1);
}

__device__ int sum(cg::thread_group group, int* scratch, int value) {
    scratch[threadIdx.x] = value;
    for (int half = group.size() / 2; half > 0; half /= 2) {
        group.sync();
        if (group.thread_rank() < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
    }
    group.sync();
    return scratch[threadIdx.x - group.thread_rank()];
}

__global__ void scans(int* inclusive, int* exclusive, int* sums, int size) {
    __shared__ int scratch[8];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    inclusive[threadIdx.x] = cg::inclusive_scan(tile, int(threadIdx.x) + 1);
    exclusive[threadIdx.x] = cg::exclusive_scan(tile, int(threadIdx.x) + 1, cg::plus<int>());
    sums[threadIdx.x] = sum(cg::tiled_partition(cg::this_thread_block(), size), scratch, threadIdx.x);
}

int main() {
    int *numbers;
    cudaMallocManaged(&numbers, 32 * sizeof(int));
    for (int i = 0; i < 32; ++i) numbers[i] = 0;
    count<<<1, 32>>>(numbers, numbers + 2);
    cudaDeviceSynchronize();
    std::printf("%d multiples of three, added by %d atomic\n", numbers[0], numbers[2]);
    scans<<<1, 8>>>(numbers, numbers + 8, numbers + 16, 4);
    cudaDeviceSynchronize();
    for (int row = 0; row < 2; ++row) {
        std::printf("%s scan:", row ? "exclusive" : "inclusive");
        for (int i = 0; i < 8; ++i) std::printf(" %d", numbers[8 * row + i]);
        std::printf("\n");
    }
    std::printf("a run-time tile of 4 sums %d\n", numbers[16 + 5]);
    cudaFree(numbers);
}
