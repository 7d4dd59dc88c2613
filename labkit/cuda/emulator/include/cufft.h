// cuFFT's transforms of rows that lie one behind the other. The result is a reference, computed in double
// precision by labkit (labkit/cuda/programs/calls_fft.py).
#pragma once
#ifdef CUEMU_INLINE  // in a program
#include "cuComplex.h"
#endif
#define CUFFTAPI
#define _CUFFT_H_  // what public headers look for

typedef enum {
    CUFFT_SUCCESS = 0, CUFFT_INVALID_PLAN = 1, CUFFT_ALLOC_FAILED = 2, CUFFT_INVALID_TYPE = 3, CUFFT_INVALID_VALUE = 4,
    CUFFT_INTERNAL_ERROR = 5, CUFFT_EXEC_FAILED = 6, CUFFT_SETUP_FAILED = 7, CUFFT_INVALID_SIZE = 8, CUFFT_UNALIGNED_DATA = 9,
    CUFFT_INCOMPLETE_PARAMETER_LIST = 10, CUFFT_INVALID_DEVICE = 11, CUFFT_PARSE_ERROR = 12, CUFFT_NO_WORKSPACE = 13,
    CUFFT_NOT_IMPLEMENTED = 14, CUFFT_LICENSE_ERROR = 15, CUFFT_NOT_SUPPORTED = 16, CUFFT_MISSING_DEPENDENCY = 17,
    CUFFT_NVRTC_FAILURE = 18, CUFFT_NVJITLINK_FAILURE = 19, CUFFT_NVSHMEM_FAILURE = 20
} cufftResult_t;
typedef cufftResult_t cufftResult;
typedef enum {
    CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, CUFFT_C2C = 0x29, CUFFT_D2Z = 0x6a, CUFFT_Z2D = 0x6c, CUFFT_Z2Z = 0x69
} cufftType_t;
typedef cufftType_t cufftType;
enum { CUFFT_FORWARD = -1, CUFFT_INVERSE = 1 };
typedef int cufftHandle;

// A batch of transforms of rows of `sizes`, the last axis varying fastest.
struct CuemuFft {
    int rank, sizes[3], batch, type, direction;
    const void* in;
    void* out;
};

extern "C" {
cufftResult cufftCreate(cufftHandle* plan);
cufftResult cufftDestroy(cufftHandle plan);
cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream);
cufftResult cuemu_fft_plan(cufftHandle plan, int rank, const int* sizes, cufftType type, int batch);
cufftResult cuemu_fft(cufftHandle plan, cufftType type, const void* in, void* out, int direction);
}

inline cufftResult cufftMakePlan1d(cufftHandle plan, int n, cufftType type, int batch, size_t* work) {
    return *work = 0, cuemu_fft_plan(plan, 1, &n, type, batch);
}
inline cufftResult cufftMakePlan2d(cufftHandle plan, int rows, int columns, cufftType type, size_t* work) {
    const int sizes[2] = {rows, columns};
    return *work = 0, cuemu_fft_plan(plan, 2, sizes, type, 1);
}
inline cufftResult cufftMakePlan3d(cufftHandle plan, int x, int y, int z, cufftType type, size_t* work) {
    const int sizes[3] = {x, y, z};
    return *work = 0, cuemu_fft_plan(plan, 3, sizes, type, 1);
}
// Rows with gaps between them are not supported.
inline cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int* sizes, int* in_sizes, int, int, int* out_sizes, int, int,
                                     cufftType type, int batch, size_t* work) {
    if (in_sizes || out_sizes) return CUFFT_NOT_SUPPORTED;
    return *work = 0, cuemu_fft_plan(plan, rank, sizes, type, batch);
}
#define CUEMU_PLAN(NAME, PARAMETERS, ...)                              \
    inline cufftResult cufftPlan##NAME PARAMETERS {                    \
        size_t work;                                                   \
        cufftResult result = cufftCreate(plan);                        \
        if (result) return result;                                     \
        result = cufftMakePlan##NAME(*plan, __VA_ARGS__, &work);       \
        if (result) cufftDestroy(*plan);                               \
        return result;                                                 \
    }
CUEMU_PLAN(1d, (cufftHandle* plan, int n, cufftType type, int batch), n, type, batch)
CUEMU_PLAN(2d, (cufftHandle* plan, int rows, int columns, cufftType type), rows, columns, type)
CUEMU_PLAN(3d, (cufftHandle* plan, int x, int y, int z, cufftType type), x, y, z, type)
CUEMU_PLAN(Many, (cufftHandle* plan, int rank, int* sizes, int* in_sizes, int in_step, int in_batch, int* out_sizes, int out_step,
                  int out_batch, cufftType type, int batch),
           rank, sizes, in_sizes, in_step, in_batch, out_sizes, out_step, out_batch, type, batch)
#undef CUEMU_PLAN

#ifdef CUEMU_INLINE
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
#define CUEMU_FFT(NAME, IN, OUT)                                                                               \
    inline cufftResult cufftExec##NAME(cufftHandle plan, IN* in, OUT* out, int direction) {                    \
        return cuemu_fft(plan, CUFFT_##NAME, in, out, direction);                                              \
    }
CUEMU_FFT(C2C, cufftComplex, cufftComplex)
CUEMU_FFT(Z2Z, cufftDoubleComplex, cufftDoubleComplex)
#undef CUEMU_FFT
#define CUEMU_FFT(NAME, IN, OUT, DIRECTION)                                                                    \
    inline cufftResult cufftExec##NAME(cufftHandle plan, IN* in, OUT* out) {                                   \
        return cuemu_fft(plan, CUFFT_##NAME, in, out, DIRECTION);                                              \
    }
CUEMU_FFT(R2C, cufftReal, cufftComplex, CUFFT_FORWARD)
CUEMU_FFT(D2Z, cufftDoubleReal, cufftDoubleComplex, CUFFT_FORWARD)
CUEMU_FFT(C2R, cufftComplex, cufftReal, CUFFT_INVERSE)
CUEMU_FFT(Z2D, cufftDoubleComplex, cufftDoubleReal, CUFFT_INVERSE)
#undef CUEMU_FFT
#endif
