// cuBLAS, as far as products of matrices go: programs compare their own kernels with it. The result is
// a reference, computed in double precision by labkit (labkit/cuda/programs/calls_blas.py).
#pragma once
#ifdef CUEMU_INLINE  // in a program; labkit's own calls know no small floats
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#endif
#ifndef CUBLASAPI
#define CUBLASAPI
#endif
#define CUBLAS_V2_H_
#define CUBLAS_API_H_  // what public headers look for

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C } cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE } cublasPointerMode_t;
typedef enum {
    CUBLAS_DEFAULT_MATH = 0, CUBLAS_TENSOR_OP_MATH = 1, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3
} cublasMath_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_C_32F = 4, CUDA_C_64F = 5, CUDA_R_16BF = 14 } cudaDataType_t;
typedef cudaDataType_t cudaDataType;
typedef enum {
    CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75, CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    CUBLAS_COMPUTE_64F = 70
} cublasComputeType_t;
typedef struct cublasContext* cublasHandle_t;

// One product or many: c = alpha op(a) op(b) + beta c, all column by column.
struct CuemuGemm {
    int a_op, b_op, m, n, k, lda, ldb, ldc, batch, type;
    double alpha, beta;
    const void *a, *b;
    void* c;
    long long a_stride, b_stride, c_stride;
};

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cuemu_gemm(cublasHandle_t handle, const CuemuGemm* gemm);
}
#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
#define cublasSetStream cublasSetStream_v2

inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) { return *version = 120800, CUBLAS_STATUS_SUCCESS; }
inline const char* cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "cuBLAS refused the call";
}

#define CUEMU_GEMM(LETTER, T, TYPE)                                                                                  \
    inline cublasStatus_t cublas##LETTER##gemm(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, \
                                               int m, int n, int k, const T* alpha, const T* a, int lda, const T* b,  \
                                               int ldb, const T* beta, T* c, int ldc) {                               \
        const CuemuGemm gemm{a_op, b_op, m, n, k, lda, ldb, ldc, 1, TYPE, *alpha, *beta, a, b, c, 0, 0, 0};           \
        return cuemu_gemm(handle, &gemm);                                                                             \
    }                                                                                                                 \
    inline cublasStatus_t cublas##LETTER##gemmStridedBatched(                                                         \
        cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k, const T* alpha,    \
        const T* a, int lda, long long a_stride, const T* b, int ldb, long long b_stride, const T* beta, T* c,         \
        int ldc, long long c_stride, int batch) {                                                                     \
        const CuemuGemm gemm{a_op, b_op, m, n, k, lda, ldb, ldc, batch, TYPE, *alpha, *beta, a, b, c,                 \
                             a_stride, b_stride, c_stride};                                                           \
        return cuemu_gemm(handle, &gemm);                                                                             \
    }                                                                                                                 \
    inline cublasStatus_t cublas##LETTER##gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n,              \
                                               const T* alpha, const T* a, int lda, const T* x, int x_step,           \
                                               const T* beta, T* y, int y_step) {                                     \
        if (x_step != 1 || y_step != 1) return CUBLAS_STATUS_NOT_SUPPORTED;                                           \
        const int rows = op == CUBLAS_OP_N ? m : n, inner = op == CUBLAS_OP_N ? n : m;                                \
        const CuemuGemm gemm{op, CUBLAS_OP_N, rows, 1, inner, lda, inner, rows, 1, TYPE, *alpha, *beta, a, x, y, 0, 0, 0}; \
        return cuemu_gemm(handle, &gemm);                                                                             \
    }
CUEMU_GEMM(S, float, CUDA_R_32F)
CUEMU_GEMM(D, double, CUDA_R_64F)
#undef CUEMU_GEMM

inline cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k, const void* alpha,
    const void* a, cudaDataType_t a_type, int lda, long long a_stride, const void* b, cudaDataType_t b_type, int ldb,
    long long b_stride, const void* beta, void* c, cudaDataType_t c_type, int ldc, long long c_stride, int batch,
    cublasComputeType_t compute, cublasGemmAlgo_t) {
    const bool wide = compute == CUBLAS_COMPUTE_64F;
    if (a_type != b_type || b_type != c_type || compute == CUBLAS_COMPUTE_16F) return CUBLAS_STATUS_NOT_SUPPORTED;
    const double scale = wide ? *(const double*)alpha : *(const float*)alpha;
    const double keep = wide ? *(const double*)beta : *(const float*)beta;
    const CuemuGemm gemm{a_op, b_op, m, n, k, lda, ldb, ldc, batch, a_type, scale, keep, a, b, c, a_stride, b_stride, c_stride};
    return cuemu_gemm(handle, &gemm);
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n,
                                   int k, const void* alpha, const void* a, cudaDataType_t a_type, int lda, const void* b,
                                   cudaDataType_t b_type, int ldb, const void* beta, void* c, cudaDataType_t c_type,
                                   int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
    return cublasGemmStridedBatchedEx(handle, a_op, b_op, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta, c,
                                      c_type, ldc, 0, 1, compute, algorithm);
}
