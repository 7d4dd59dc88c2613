// expect: sum of 8000 values: 8000
// expect: 40,000 bytes are too many: 1
// Parameters of more than 4 KiB, which CUDA takes since 12.1, up to 32,764 bytes.
#include <cstdio>

template <int N> struct Many { int values[N]; };

template <int N> __global__ void sum(const Many<N> given, int* out) {
    int total = 0;
    for (int i = 0; i < N; ++i) total += given.values[i];
    *out = total;
}

int main() {
    static Many<8000> many;
    static Many<10000> too_many;
    for (int& value : many.values) value = 1;
    int *out, result = 0;
    cudaMalloc(&out, sizeof(int));
    sum<8000><<<1, 1>>>(many, out);
    cudaMemcpy(&result, out, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("sum of 8000 values: %d\n", result);
    sum<10000><<<1, 1>>>(too_many, out);  // finds api_error
    std::printf("40,000 bytes are too many: %d\n", cudaDeviceSynchronize() != cudaSuccess || cudaGetLastError() != cudaSuccess);
    cudaFree(out);
}
