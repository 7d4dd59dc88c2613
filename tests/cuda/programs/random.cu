// expect: mean near a half: 1, of normals near 0: 1, their spread near 1: 1
// expect: Philox, seed 42: 2632642643 2012563771
// expect: an offset goes on where the numbers stopped: 1
// Random numbers made on the device.
#include <cmath>
#include <cstdio>
#include <curand_kernel.h>

__global__ void draw(float* uniform, float* normal, int each) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState state;
    curand_init(1234, i, 0, &state);
    for (int k = 0; k < each; ++k) {
        uniform[i * each + k] = curand_uniform(&state);
        normal[i * each + k] = curand_normal(&state);
    }
}
__global__ void philox(unsigned* out) {
    curandStatePhilox4_32_10_t state;
    curand_init(42, 0, 0, &state);
    for (int i = 0; i < 8; ++i) out[i] = curand(&state);
    curand_init(42, 0, 6, &state);
    out[8] = curand(&state);
}

int main() {
    const int threads = 256, each = 16, n = threads * each;
    float *uniform, *normal;
    unsigned* out;
    cudaMallocManaged(&uniform, n * sizeof(float));
    cudaMallocManaged(&normal, n * sizeof(float));
    cudaMallocManaged(&out, 9 * sizeof(unsigned));
    draw<<<2, threads / 2>>>(uniform, normal, each);
    philox<<<1, 1>>>(out);
    cudaDeviceSynchronize();
    double mean = 0, normal_mean = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
        mean += uniform[i] / n, normal_mean += normal[i] / n, squares += normal[i] * normal[i] / n;
    }
    std::printf("mean near a half: %d, of normals near 0: %d, their spread near 1: %d\n", std::fabs(mean - 0.5) < 0.03,
                std::fabs(normal_mean) < 0.06, std::fabs(squares - 1) < 0.1);
    std::printf("Philox, seed 42: %u %u\n", out[0], out[1]);
    std::printf("an offset goes on where the numbers stopped: %d\n", out[8] == out[6]);
    cudaFree(uniform);
    cudaFree(normal);
    cudaFree(out);
}
