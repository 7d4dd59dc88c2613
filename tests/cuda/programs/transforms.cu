// expect: forward: 10+0i -2+2i -2+0i -2-2i
// expect: there and back, times 4: 4 8 12 16
// expect: two rows of reals: 6 -2 22 -6, and back in place: 4 8 12 16
// expect: rows and columns: 10 -2 -4 0
// expect: a plan of another type: 3, none at all: 1
// Fourier transforms of cuFFT's, which divide by nothing.
#include <cstdio>
#include <cufft.h>
#include <cufftXt.h>

int main() {
    cufftComplex* x;
    float* reals;
    cudaMallocManaged(&x, 6 * sizeof(cufftComplex));
    cudaMallocManaged(&reals, 8 * sizeof(float));
    for (int i = 0; i < 4; ++i) x[i] = make_cuComplex(i + 1.0f, 0.0f), reals[i] = 2.0f * i + 2;

    cufftHandle plan;
    size_t work;
    long long four = 4;
    cufftCreate(&plan);
    cufftXtMakePlanMany(plan, 1, &four, nullptr, 1, 1, CUDA_C_32F, nullptr, 1, 1, CUDA_C_32F, 1, &work, CUDA_C_32F);
    cufftExecC2C(plan, x, x, CUFFT_FORWARD);
    cudaDeviceSynchronize();
    std::printf("forward:");
    for (int i = 0; i < 4; ++i) std::printf(" %g%+gi", cuCrealf(x[i]), cuCimagf(x[i]) + 0.0f);
    cufftExecC2C(plan, x, x, CUFFT_INVERSE);
    cudaDeviceSynchronize();
    std::printf("\nthere and back, times 4: %g %g %g %g\n", x[0].x, x[1].x, x[2].x, x[3].x);
    const int wrong = cufftExecR2C(plan, reals, x);
    cufftDestroy(plan);
    const int closed = cufftExecC2C(plan, x, x, CUFFT_FORWARD);

    cufftPlan1d(&plan, 2, CUFFT_R2C, 2);  // (2, 4) and (8, 14)
    reals[2] = 8, reals[3] = 14;
    cufftExecR2C(plan, reals, x);
    cudaDeviceSynchronize();
    std::printf("two rows of reals: %g %g %g %g", x[0].x, x[1].x, x[2].x, x[3].x);
    cufftDestroy(plan);
    for (int i = 0; i < 4; ++i) ((float*)x)[i] = i + 1.0f;
    cufftPlan1d(&plan, 4, CUFFT_R2C, 1);
    cufftExecR2C(plan, (float*)x, x);
    cufftDestroy(plan);
    cufftPlan1d(&plan, 4, CUFFT_C2R, 1);
    cufftExecC2R(plan, x, (float*)x);
    cudaDeviceSynchronize();
    for (int i = 0; i < 4; ++i) reals[i] = ((float*)x)[i];
    std::printf(", and back in place: %g %g %g %g\n", reals[0], reals[1], reals[2], reals[3]);
    cufftDestroy(plan);

    for (int i = 0; i < 4; ++i) x[i] = make_cuComplex(i + 1.0f, 0.0f);
    cufftPlan2d(&plan, 2, 2, CUFFT_C2C);
    cufftExecC2C(plan, x, x, CUFFT_FORWARD);
    cudaDeviceSynchronize();
    std::printf("rows and columns: %g %g %g %g\n", x[0].x, x[1].x, x[2].x, x[3].x);
    std::printf("a plan of another type: %d, none at all: %d\n", wrong, closed);
    cufftDestroy(plan);
    cudaFree(x), cudaFree(reals);
}
