// expect: own kernel against cublasSgemm: 0 of 2240 differ
// expect: transposed, alpha 2, beta 1: 0 of 2240 differ
// expect: two in one call: 0 of 4480 differ
// expect: bfloat16, two wide: 3 5 and 1.01562
// expect: leading dimension too small: 7
// A kernel of one's own compared with cuBLAS, which counts columns where C++ counts rows.
#include <cublas_v2.h>

#include <cmath>
#include <cstdio>
#include <vector>

static_assert(sizeof(__nv_bfloat16) == sizeof(half), "NVIDIA's cublas_v2.h brings both in");
const cublasComputeType_t kept[] = {CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_COMPUTE_32F_FAST_16BF};

__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}

int differ(const float* a, const float* b, int n) {
    std::vector<float> x(n), y(n);
    cudaMemcpy(x.data(), a, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(y.data(), b, n * sizeof(float), cudaMemcpyDeviceToHost);
    int count = 0;
    for (int i = 0; i < n; ++i) count += !(std::fabs(x[i] - y[i]) <= 1e-3f);
    return count;
}

int main() {
    const int M = 56, N = 40, K = 24;
    const float one = 1.0f, zero = 0.0f, two = 2.0f;
    std::vector<float> a(2 * M * K), b(2 * K * N);
    for (int i = 0; i < 2 * M * K; ++i) a[i] = i % 7 - 3;
    for (int i = 0; i < 2 * K * N; ++i) b[i] = i % 5 - 2;
    float *A, *B, *C, *reference;
    cudaMalloc(&A, a.size() * sizeof(float));
    cudaMalloc(&B, b.size() * sizeof(float));
    cudaMalloc(&C, 2 * M * N * sizeof(float));
    cudaMalloc(&reference, 2 * M * N * sizeof(float));
    cudaMemcpy(A, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(B, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(C, 0, 2 * M * N * sizeof(float));
    cudaMemset(reference, 0, 2 * M * N * sizeof(float));
    cublasHandle_t handle;
    cublasCreate(&handle);
    const dim3 block(8, 8), grid((N + 7) / 8, (M + 7) / 8);
    sgemm<<<grid, block>>>(M, N, K, one, A, B, zero, C);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, B, N, A, K, &zero, reference, N);
    std::printf("own kernel against cublasSgemm: %d of %d differ\n", differ(C, reference, M * N), M * N);
    // B read as its own transpose, K x N by columns: the same numbers as N x K by rows.
    std::vector<float> transposed(K * N);
    for (int k = 0; k < K; ++k) {
        for (int n = 0; n < N; ++n) transposed[n * K + k] = b[k * N + n];
    }
    float* Bt;
    cudaMalloc(&Bt, K * N * sizeof(float));
    cudaMemcpy(Bt, transposed.data(), K * N * sizeof(float), cudaMemcpyHostToDevice);
    sgemm<<<grid, block>>>(M, N, K, two, A, B, one, C);
    cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, N, M, K, &two, Bt, K, A, K, &one, reference, N);
    std::printf("transposed, alpha 2, beta 1: %d of %d differ\n", differ(C, reference, M * N), M * N);
    for (int i = 0; i < 2; ++i) sgemm<<<grid, block>>>(M, N, K, one, A + i * M * K, B + i * K * N, zero, C + i * M * N);
    cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, B, N, K * N, A, K, M * K, &zero, reference, N,
                              M * N, 2);
    std::printf("two in one call: %d of %d differ\n", differ(C, reference, 2 * M * N), 2 * M * N);
    // 1 + 2^-7 and 2^-8 make 1.01171875, halfway between two of them: the even one is stored.
    const __nv_bfloat16 row[] = {1.0f, 1.0f}, square[] = {1.0f, 2.0f, 4.0f, 1.0f, 1.0078125f, 0.00390625f};
    __nv_bfloat16 *left, *right, *product, sums[3];
    cudaMalloc(&left, sizeof(row)), cudaMalloc(&right, sizeof(square)), cudaMalloc(&product, sizeof(sums));
    cudaMemcpy(left, row, sizeof(row), cudaMemcpyHostToDevice);
    cudaMemcpy(right, square, sizeof(square), cudaMemcpyHostToDevice);
    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 3, 2, &one, left, CUDA_R_16BF, 1, right, CUDA_R_16BF, 2, &zero, product,
                 CUDA_R_16BF, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cudaMemcpy(sums, product, sizeof(sums), cudaMemcpyDeviceToHost);
    std::printf("bfloat16, two wide: %g %g and %g\n", (float)sums[0], (float)sums[1], (float)sums[2]);
    cudaFree(left), cudaFree(right), cudaFree(product);
    cublasStatus_t wrong;
    wrong = cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, B, 9, A, K, &one, C, N);  // finds api_error
    std::printf("leading dimension too small: %d\n", wrong);
    cublasDestroy(handle);
    cudaFree(A);
    cudaFree(B);
    cudaFree(Bt);
    cudaFree(C);
    cudaFree(reference);
}
