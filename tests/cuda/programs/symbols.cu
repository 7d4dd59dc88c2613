// expect: 1 3 6 10 15
// expect: calls 5, scale 2.5, table of 20 bytes
// Variables of the device: set, used and read back, in a namespace and out of it.
#include <iostream>

__constant__ int weights[5];
__device__ int calls = 0;
namespace model {
__device__ float scale = 1.0f;
}

__global__ void running_sum(int* out) {
    int sum = 0;
    for (int i = 0; i <= threadIdx.x; ++i) sum += weights[i];
    out[threadIdx.x] = sum;
    atomicAdd(&calls, 1);
    if (threadIdx.x == 0) model::scale *= 2.5f;
}

int main() {
    const int host[5] = {1, 2, 3, 4, 5};
    int sums[5], count = 0, *out;
    float scale = 0.0f;
    size_t size = 0;
    cudaMalloc(&out, sizeof(sums));
    cudaMemcpyToSymbol(weights, host, sizeof(host));
    running_sum<<<1, 5>>>(out);
    cudaMemcpy(sums, out, sizeof(sums), cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&count, calls, sizeof(count));
    cudaMemcpyFromSymbol(&scale, model::scale, sizeof(scale));
    cudaGetSymbolSize(&size, weights);
    for (int sum : sums) std::cout << sum << (sum == 15 ? "\n" : " ");
    std::cout << "calls " << count << ", scale " << scale << ", table of " << size << " bytes" << std::endl;
    cudaFree(out);
}
