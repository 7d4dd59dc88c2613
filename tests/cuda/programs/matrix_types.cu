// expect: bytes: 0 differ
// expect: tf32: 0 differ, 1.0005 becomes 1.000977
// expect: double: 0 differ
// Products of a warp's matrices in the types that are not half precision.
#include <cstdint>
#include <cstdio>
#include <mma.h>

using namespace nvcuda;

template <class T, class Element, class Sum, int M, int N, int K> __global__ void multiply(const Element* a, const Element* b, Sum* c) {
    wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> sum;
    wmma::fill_fragment(sum, 1);
    wmma::load_matrix_sync(left, a, K);
    wmma::load_matrix_sync(right, b, K);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}
__global__ void rounded(float x, float* out) { *out = wmma::__float_to_tf32(x); }

// a is M x K row by row, b is K x N column by column, and every sum begins at 1.
template <class T, class Element, class Sum, int M, int N, int K> int differ() {
    Element *a, *b;
    Sum* c;
    cudaMallocManaged(&a, M * K * sizeof(Element));
    cudaMallocManaged(&b, K * N * sizeof(Element));
    cudaMallocManaged(&c, M * N * sizeof(Sum));
    for (int i = 0; i < M * K; ++i) a[i] = (Element)(i * 7 % 201);
    for (int i = 0; i < K * N; ++i) b[i] = (Element)(i * 5 % 203);
    multiply<T, Element, Sum, M, N, K><<<1, 32>>>(a, b, c);
    cudaDeviceSynchronize();
    int count = 0;
    for (int row = 0; row < M; ++row) {
        for (int column = 0; column < N; ++column) {
            Sum expected = 1;
            for (int k = 0; k < K; ++k) expected += (Sum)a[row * K + k] * (Sum)b[column * K + k];
            count += expected != c[row * N + column];
        }
    }
    cudaFree(a), cudaFree(b), cudaFree(c);
    return count;
}

int main() {
    std::printf("bytes: %d differ\n", differ<uint8_t, uint8_t, int, 16, 16, 16>() + differ<signed char, signed char, int, 8, 32, 16>());
    float* out;
    cudaMallocManaged(&out, sizeof(float));
    rounded<<<1, 1>>>(1.0005f, out);
    const int tf32 = differ<wmma::precision::tf32, float, float, 16, 16, 8>();
    std::printf("tf32: %d differ, 1.0005 becomes %f\n", tf32, *out);
    std::printf("double: %d differ\n", differ<double, double, double, 8, 8, 4>());
    cudaFree(out);
}
