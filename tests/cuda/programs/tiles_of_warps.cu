// expect: the first tile alone: 2016, the last, of one warp: 4 96
// expect: a number of the other tile: 1
// Tiles of two warps wait for their own warps, not for the block.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>

namespace cg = cooperative_groups;

// 160 threads: tiles of 64, 64 and 32. Only the first and the last meet, and the last more often.
__global__ void alone(int* out) {
    __shared__ cg::block_tile_memory<160> memory;
    const auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
    if (tile.meta_group_rank() == 0) {
        const int sum = cg::reduce(tile, (int)tile.thread_rank(), cg::plus<int>());
        if (tile.thread_rank() == 0) out[0] = sum;
    } else if (tile.meta_group_rank() == 2) {
        __shared__ int seen[32];
        int rounds = 0, sum = 0;
        for (; rounds < 4; ++rounds) {
            seen[tile.thread_rank()] = rounds;
            tile.sync();
            sum += seen[31 - tile.thread_rank()] * 16;
            tile.sync();
        }
        if (tile.thread_rank() == 0) out[1] = rounds, out[2] = sum;
    }
}
// The tile's barrier orders nothing with the other tile.
__global__ void across(int* out) {
    __shared__ cg::block_tile_memory<128> memory;
    __shared__ int kept[2];
    const auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
    if (tile.thread_rank() == 0) kept[tile.meta_group_rank()] = 1;
    tile.sync();
    if (threadIdx.x == 64) *out = kept[0];  // finds race
}

int main() {
    int* out;
    cudaMallocManaged(&out, 3 * sizeof(int));
    alone<<<1, 160>>>(out);
    cudaDeviceSynchronize();
    printf("the first tile alone: %d, the last, of one warp: %d %d\n", out[0], out[1], out[2]);
    across<<<1, 128>>>(out);
    cudaDeviceSynchronize();
    printf("a number of the other tile: %d\n", *out);
    cudaFree(out);
}
