// expect: 1/3 is between its bounds: 1, which are neighbours: 1
// expect: 0.1 + 0.2 down, up: 0.29999998 0.30000001
// expect: exact sums stay: 3 3
// expect: umin of its own: 7, umax: 9
// expect: 24 bits: 16777215 * 2 = 33554430
// Arithmetic that rounds in a stated direction, and the 24-bit multiplication.
#include <cmath>
#include <cstdio>

static unsigned umin(unsigned, unsigned) { return 7; }  // a program may have its own

__global__ void round_ways(float* out, unsigned* product) {
    out[0] = __fdiv_rd(1.0f, 3.0f), out[1] = __fdiv_ru(1.0f, 3.0f);
    out[2] = __fadd_rd(0.1f, 0.2f), out[3] = __fadd_ru(0.1f, 0.2f);
    out[4] = __fadd_rd(1.0f, 2.0f), out[5] = __fadd_ru(1.0f, 2.0f);
    *product = __umul24(0x01ffffff, 2);
}

int main() {
    float host[6], *out;
    unsigned host_product, *product;
    cudaMalloc(&out, sizeof(host));
    cudaMalloc(&product, sizeof(unsigned));
    round_ways<<<1, 1>>>(out, product);
    cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost);
    cudaMemcpy(&host_product, product, sizeof(unsigned), cudaMemcpyDeviceToHost);
    const double third = 1.0 / 3.0;
    std::printf("1/3 is between its bounds: %d, which are neighbours: %d\n", host[0] < third && third < host[1],
                std::nextafter(host[0], 1.0f) == host[1]);
    std::printf("0.1 + 0.2 down, up: %.8f %.8f\n", host[2], host[3]);
    std::printf("exact sums stay: %g %g\numin of its own: %u, umax: %u\n24 bits: 16777215 * 2 = %u\n", host[4], host[5], umin(8u, 9u), umax(8u, 9u), host_product);
    cudaFree(out);
    cudaFree(product);
}
