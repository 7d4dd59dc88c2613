// expect: sum 2016
// expect: largest of each tile: 7 15 23 31 39 47 55 63
// Cooperative groups: a block, and tiles of eight threads that reduce by shuffles.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void reduce(int* sum, int* largest) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    const int mine = block.thread_rank();
    const int most = cg::reduce(tile, mine, cg::greater<int>());
    if (tile.thread_rank() == 0) largest[tile.meta_group_rank()] = most;
    int part = mine;
    for (int step = tile.size() / 2; step > 0; step /= 2) part += tile.shfl_down(part, step);
    if (tile.thread_rank() == 0) atomicAdd(sum, part);
    block.sync();
}

int main() {
    int *sum, *largest;
    cudaMallocManaged(&sum, sizeof(int));
    cudaMallocManaged(&largest, 8 * sizeof(int));
    *sum = 0;
    reduce<<<1, 64>>>(sum, largest);
    cudaDeviceSynchronize();
    std::printf("sum %d\nlargest of each tile:", *sum);
    for (int i = 0; i < 8; ++i) std::printf(" %d", largest[i]);
    std::printf("\n");
    cudaFree(sum);
    cudaFree(largest);
}
