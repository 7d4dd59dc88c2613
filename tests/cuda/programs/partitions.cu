// expect: 256 numbers: 64 are multiples of 4, their sum 8064; the others' 24576
// The lanes of a warp in two groups, of which the smaller is done first and waits for the other to meet again before the next turn.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cstdio>

namespace cg = cooperative_groups;

__global__ void sums(const int* in, int n, int* count, int* sum) {
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const int value = in[i];
        const auto alike = cg::binary_partition(tile, value % 4 != 0);
        if (value % 4 != 0) {
            const int total = cg::reduce(alike, value, cg::plus<int>());
            if (alike.thread_rank() == 0) atomicAdd(&sum[1], total);
        } else {
            const int total = cg::reduce(alike, value, cg::plus<int>());
            if (alike.thread_rank() == 0) atomicAdd(&sum[0], total), atomicAdd(count, (int)alike.size());
        }
        cg::sync(tile);
    }
}

int main() {
    const int n = 256;
    int host[n], result[3] = {}, *in, *out;
    for (int i = 0; i < n; ++i) host[i] = i * 37 % n;
    cudaMalloc(&in, sizeof(host));
    cudaMalloc(&out, sizeof(result));
    cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice);
    cudaMemset(out, 0, sizeof(result));
    sums<<<1, 64>>>(in, n, out, out + 1);
    cudaMemcpy(result, out, sizeof(result), cudaMemcpyDeviceToHost);
    std::printf("%d numbers: %d are multiples of 4, their sum %d; the others' %d\n", n, result[0], result[1], result[2]);
    cudaFree(in);
    cudaFree(out);
}
