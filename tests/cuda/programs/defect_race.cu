// expect: done
// Every thread adds to one number, and nothing makes that one step.
#include <cstdio>

__global__ void count(const int* values, int* evens) {
    const int i = threadIdx.x;
    if (values[i] % 2 == 0) {
        *evens += 1;  // finds race
    }
}

int main() {
    int host[64], *values, *evens;
    for (int i = 0; i < 64; ++i) host[i] = i;
    cudaMalloc(&values, sizeof(host));
    cudaMalloc(&evens, sizeof(int));
    cudaMemcpy(values, host, sizeof(host), cudaMemcpyHostToDevice);
    cudaMemset(evens, 0, sizeof(int));
    count<<<1, 64>>>(values, evens);
    cudaDeviceSynchronize();
    std::printf("done\n");
    cudaFree(values);
    cudaFree(evens);
}
