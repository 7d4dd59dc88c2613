// expect: 8 blocks, each saw 8 of them: 1
// expect: sum 32640, by 256 threads
// expect: too many blocks in cooperative launch
// A grid that waits for itself, launched cooperatively; twice, and once too large.
#include <cooperative_groups.h>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void everybody(int* arrived, int* seen, int* sum, const int* values) {
    cg::grid_group grid = cg::this_grid();
    if (threadIdx.x == 0) atomicAdd(arrived, 1);
    grid.sync();
    if (threadIdx.x == 0) seen[blockIdx.x] = *arrived;
    grid.sync();
    atomicAdd(sum, values[grid.thread_rank()] * (seen[(blockIdx.x + 1) % gridDim.x] == gridDim.x));
}

int main() {
    const int blocks = 8, threads = 32;
    int *arrived, *seen, *sum, *values;
    cudaMallocManaged(&arrived, sizeof(int));
    cudaMallocManaged(&sum, sizeof(int));
    cudaMallocManaged(&seen, blocks * sizeof(int));
    cudaMallocManaged(&values, blocks * threads * sizeof(int));
    for (int i = 0; i < blocks * threads; ++i) values[i] = i;
    void* arguments[] = {&arrived, &seen, &sum, &values};
    bool all = true;
    for (int again = 0; again < 2; ++again) {
        *arrived = *sum = 0;
        cudaLaunchCooperativeKernel((void*)everybody, blocks, threads, arguments);
        cudaDeviceSynchronize();
        for (int b = 0; b < blocks; ++b) all = all && seen[b] == blocks;
    }
    std::printf("%d blocks, each saw %d of them: %d\nsum %d, by %d threads\n", blocks, blocks, all, *sum, blocks * threads);
    cudaError_t error = cudaLaunchCooperativeKernel((void*)everybody, 4096, threads, arguments);  // finds launch_configuration
    std::printf("%s\n", cudaGetErrorString(error));
    cudaFree(arrived);
    cudaFree(seen);
    cudaFree(sum);
    cudaFree(values);
}
