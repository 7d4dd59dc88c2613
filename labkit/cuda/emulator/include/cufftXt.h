// Of cuFFT's extended functions the plan; callbacks and several devices do not compile.
#pragma once
#include "cublas_v2.h"  // cudaDataType
#include "cufft.h"

inline cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long* sizes, long long* in_sizes, long long, long long,
                                       cudaDataType in_type, long long* out_sizes, long long, long long, cudaDataType out_type,
                                       long long batch, size_t* work, cudaDataType) {
    const bool wide = in_type == CUDA_C_64F;
    if (in_sizes || out_sizes || rank < 1 || rank > 3) return CUFFT_NOT_SUPPORTED;
    if (in_type != out_type || !(wide || in_type == CUDA_C_32F)) return CUFFT_NOT_SUPPORTED;
    int narrow[3];
    for (int i = 0; i < rank; ++i) narrow[i] = (int)sizes[i];
    return *work = 0, cuemu_fft_plan(plan, rank, narrow, wide ? CUFFT_Z2Z : CUFFT_C2C, (int)batch);
}
