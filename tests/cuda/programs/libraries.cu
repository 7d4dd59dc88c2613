// expect: the emulator does not run cuRAND's scrambled generators
// expect: tiles 4032 12224
// expect: bytes 1008
// expect: normal 3.0 4.0 uniform 0.5
// expect: quasi 103
// expect: products 1 4 2 8
// Random numbers of the host's functions, a tile of two warps, and names that are not only a kernel's.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <curand.h>
#include <cublas_v2.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

// Two tiles of 64 threads each, and each thread writes its tile's sum.
__global__ void tile_sums(const int* x, int* sums) {
    __shared__ cg::block_tile_memory<128> memory;
    __shared__ alignas(16) int kept[128];
    const auto block = cg::this_thread_block(memory);
    const auto tile = cg::tiled_partition<64>(block);
    kept[threadIdx.x] = cg::reduce(tile, x[threadIdx.x], cg::plus<int>());
    sums[threadIdx.x] = kept[threadIdx.x];
}

__global__ void twice(int* x) { x[threadIdx.x] *= 2; }
void twice(int* x, int threads) { twice<<<1, threads>>>(x); }

__global__ void distance(unsigned* out, unsigned a, unsigned b) {
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(*out) : "r"(a), "r"(b), "r"(1000));
}

int main() {
    int *x, *sums;
    cudaMallocManaged(&x, 128 * sizeof(int));
    cudaMallocManaged(&sums, 128 * sizeof(int));
    for (int i = 0; i < 128; ++i) x[i] = i;
    cudaMemPrefetchAsync(x, 128 * sizeof(int), cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0);
    twice(x, 128);
    tile_sums<<<1, 128>>>(x, sums);
    cudaDeviceSynchronize();
    std::printf("tiles %d %d\n", sums[0], sums[127]);

    distance<<<1, 1>>>((unsigned*)x, 0x01020304u, 0x04030201u);
    cudaMemcpyPeer(sums, 0, x, 0, sizeof(int));
    std::printf("bytes %d\n", sums[0]);

    curandGenerator_t generator;
    curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT);
    curandSetPseudoRandomGeneratorSeed(generator, 5);
    float* draws;
    cudaMalloc(&draws, 20000 * sizeof(float));
    std::vector<float> first(20000), second(20000);
    curandGenerateNormal(generator, draws, 20000, 3, 2);
    cudaMemcpy(first.data(), draws, 20000 * sizeof(float), cudaMemcpyDeviceToHost);
    curandGenerateUniform(generator, draws, 20000);
    cudaMemcpy(second.data(), draws, 20000 * sizeof(float), cudaMemcpyDeviceToHost);
    curandDestroyGenerator(generator);
    double mean = 0, square = 0, uniform = 0;
    for (float one : first) mean += one / 20000, square += (one - 3) * (one - 3) / 20000;
    for (float one : second) uniform += one / 20000;
    std::printf("normal %.1f %.1f uniform %.1f\n", mean, square, uniform);
    std::printf("quasi %d\n", curandCreateGenerator(&generator, CURAND_RNG_QUASI_SCRAMBLED_SOBOL32));

    // Two products of 2 x 2 by 2 x 2: the second matrix b is twice the first.
    const float a[4] = {1, 2, 3, 4}, b[8] = {1, 0, 0, 1, 2, 0, 0, 2}, one = 1, zero = 0;
    float *da, *db, *dc, c[8];
    cudaMalloc(&da, sizeof a), cudaMalloc(&db, sizeof b), cudaMalloc(&dc, sizeof c);
    cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, da, CUDA_R_32F, 2, 0, db, CUDA_R_32F, 2,
                               4, &zero, dc, CUDA_R_32F, 2, 4, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cublasDestroy(handle);
    cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost);
    std::printf("products %g %g %g %g\n", c[0], c[3], c[4], c[7]);

    cudaEvent_t event;
    cudaEventCreate(&event, cudaEventDisableTiming);
    cudaEventDestroy(event);
    for (void* memory : {(void*)x, (void*)sums, (void*)draws, (void*)da, (void*)db, (void*)dc}) cudaFree(memory);
}
