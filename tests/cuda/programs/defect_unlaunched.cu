// expect: 1 1 0
#include <cstdio>

template <class T>
__global__ void set(T* x, T value) {  // finds device_only
    x[threadIdx.x] = value;
}

int main() {
    int* x;
    int host[3] = {0, 0, 0};
    cudaMalloc(&x, sizeof(host));
    cudaMemset(x, 0, sizeof(host));
    set<<<1, 2>>>(x, 1);
    auto* called = set<int>;
    called(x + 2, 7);
    cudaMemcpy(host, x, sizeof(host), cudaMemcpyDeviceToHost);
    std::printf("%d %d %d\n", host[0], host[1], host[2]);
    cudaFree(x);
}
