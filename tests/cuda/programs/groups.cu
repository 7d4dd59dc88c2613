// expect: sum 2016
// expect: four words from the next lane: 1 11 21 31
// expect: largest of each tile: 7 15 23 31 39 47 55 63
// Cooperative groups: a block, and tiles of eight threads that reduce by shuffles.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void wide(uint4* out) {
    const unsigned lane = threadIdx.x;
    uint4 mine = make_uint4(lane, lane + 10, lane + 20, lane + 30);
    mine = cg::tiled_partition<32>(cg::this_thread_block()).shfl_down(mine, 1);
    if (lane == 0) *out = mine;
}

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
    uint4* words;
    cudaMallocManaged(&words, sizeof(uint4));
    wide<<<1, 32>>>(words);
    cudaDeviceSynchronize();
    std::printf("sum %d\n", *sum);
    std::printf("four words from the next lane: %u %u %u %u\n", words->x, words->y, words->z, words->w);
    std::printf("largest of each tile:");
    cudaFree(words);
    for (int i = 0; i < 8; ++i) std::printf(" %d", largest[i]);
    std::printf("\n");
    cudaFree(sum);
    cudaFree(largest);
}
