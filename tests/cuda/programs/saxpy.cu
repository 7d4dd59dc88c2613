// expect: y[0] = 5, y[99999] = 5
// expect: worst difference 0
// A program with every call checked, as most begin.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            std::exit(EXIT_FAILURE);                                                       \
        }                                                                                  \
    } while (0)

__global__ void saxpy(int n, float a, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

int main() {
    const int n = 100000;
    std::vector<float> x(n, 1.0f), y(n, 2.0f);
    float *device_x = nullptr, *device_y = nullptr;
    CHECK(cudaMalloc(&device_x, n * sizeof(float)));
    CHECK(cudaMalloc((void**)&device_y, n * sizeof(float)));
    CHECK(cudaMemcpy(device_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_y, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    saxpy<<<(n + 255) / 256, 256>>>(n, 3, device_x, device_y);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(y.data(), device_y, n * sizeof(float), cudaMemcpyDeviceToHost));
    float worst = 0.0f;
    for (float value : y) worst = std::fmax(worst, std::fabs(value - 5.0f));
    std::printf("y[0] = %g, y[%d] = %g\nworst difference %g\n", y[0], n - 1, y[n - 1], worst);
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(device_y));
    return 0;
}
