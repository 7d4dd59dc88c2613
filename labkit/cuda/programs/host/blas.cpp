// cuBLAS: a handle is a stream, a product is a message.
#include "../../emulator/include/cuemu/host/types.h"
#include "../../emulator/include/cublas_v2.h"

#include "ask.h"

struct cublasContext {
    cudaStream_t stream;
};

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    *handle = new cublasContext{nullptr};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cuemu_gemm(cublasHandle_t handle, const CuemuGemm* gemm) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    const cuemu::Answer answer =
        cuemu::ask("cublasGemm", CUEMU_SITE, {cuemu::number(handle->stream)}, gemm, sizeof(*gemm));
    return answer.error == cudaSuccess             ? CUBLAS_STATUS_SUCCESS
           : answer.error == cudaErrorInvalidValue ? CUBLAS_STATUS_INVALID_VALUE
                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}

}
