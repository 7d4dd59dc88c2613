// expect: sum 8128, largest 127
// expect: before thread 5: 10, up to it: 15, all: 8128
// expect: warp sums: 496 1520 2544 3568
// cub's collectives of a block and of a warp.
#include <cstdio>
#include <cub/cub.cuh>

__global__ void collect(int* out) {
    using Reduce = cub::BlockReduce<int, 128>;
    using Scan = cub::BlockScan<int, 128>;
    using Warp = cub::WarpReduce<int>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
    } storage;
    __shared__ typename Warp::TempStorage warps[4];
    const int mine = threadIdx.x;
    const int sum = Reduce(storage.reduce).Sum(mine);
    __syncthreads();
    const int largest = Reduce(storage.reduce).Reduce(mine, cub::Max());
    if (mine == 0) out[0] = sum, out[1] = largest;
    __syncthreads();
    int before, all, up_to;
    Scan(storage.scan).ExclusiveSum(mine, before, all);
    __syncthreads();
    Scan(storage.scan).InclusiveSum(mine, up_to);
    if (mine == 5) out[2] = before, out[3] = up_to, out[4] = all;
    const int warp = Warp(warps[mine / 32]).Sum(mine);
    if (mine % 32 == 0) out[5 + mine / 32] = warp;
}

int main() {
    int* out;
    cudaMallocManaged(&out, 9 * sizeof(int));
    collect<<<1, 128>>>(out);
    cudaDeviceSynchronize();
    std::printf("sum %d, largest %d\n", out[0], out[1]);
    std::printf("before thread 5: %d, up to it: %d, all: %d\n", out[2], out[3], out[4]);
    std::printf("warp sums: %d %d %d %d\n", out[5], out[6], out[7], out[8]);
    cudaFree(out);
}
