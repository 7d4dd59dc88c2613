// expect: add<int>: 30, add<double>: 0.75
// expect: deduced: 8, default: 24
// expect: chosen at run time: 7
// expect: from a macro: 9
// expect: default argument: 100
// Launches in all their forms: explicit, deduced and default template arguments, pointers, macros.
#include <cstdio>

template <typename T> __global__ void add(T a, T b, T* out) { *out = a + b; }
template <typename T, int Times = 4> __global__ void multiply(T a, T* out) { *out = a * Times; }
namespace plain {
__global__ void sub(int a, int b, int* out) { *out = a - b; }
}
__global__ void mul(int a, int b, int* out) { *out = a * b; }
__global__ void put(int* out, int value = 100) { *out = value; }
#define LAUNCH(kernel, ...)         \
    do {                            \
        kernel<<<dim3(1), 1>>>      \
            (__VA_ARGS__);          \
    } while (0)

template <typename T> T run(void (*kernel)(T, T, T*), T a, T b) {
    T *out, result;
    cudaMalloc(&out, sizeof(T));
    kernel<<<1, 1>>>(a, b, out);
    cudaMemcpy(&result, out, sizeof(T), cudaMemcpyDeviceToHost);
    cudaFree(out);
    return result;
}
template <typename T> T on_device(T a, T b) {
    T *out, result;
    cudaMalloc(&out, sizeof(T));
    add<T><<<dim3(1, 1), dim3(1), 0, 0>>>(a, b, out);
    cudaMemcpy(&result, out, sizeof(T), cudaMemcpyDeviceToHost);
    cudaFree(out);
    return result;
}

int main() {
    int *out, deduced, by_default;
    std::printf("add<int>: %d, add<double>: %g\n", on_device(10, 20), on_device(0.25, 0.5));
    cudaMalloc(&out, sizeof(int));
    add<<<1, 1>>>(3, 5, out);
    cudaMemcpy(&deduced, out, sizeof(int), cudaMemcpyDeviceToHost);
    multiply<int><<<1, 1>>>(6, out);
    cudaMemcpy(&by_default, out, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("deduced: %d, default: %d\n", deduced, by_default);
    std::printf("chosen at run time: %d\n", run<int>(deduced > 3 ? plain::sub : mul, 10, 3));
    LAUNCH(mul, 3, 3, out);
    cudaMemcpy(&deduced, out, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("from a macro: %d\n", deduced);
    put<<<1, 1>>>(out);
    cudaMemcpy(&deduced, out, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("default argument: %d\n", deduced);
    cudaFree(out);
}
