// What each instruction of inline PTX computes: tests/cuda/test_ptx.py knows the answers.
#include <cuda_fp16.h>

#define LDMATRIX_X4(r0, r1, r2, r3, at)                                            \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(at))
#define LDMATRIX_X2_TRANS(r0, r1, at) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(at))

__device__ unsigned lane() { unsigned r; asm("mov.u32 %0, %laneid;" : "=r"(r)); return r; }

extern "C" __global__ void integers(const unsigned* x, unsigned* y) {
    const unsigned a = x[0], b = x[1];
    unsigned r;
    unsigned long long wide;
    int i = 0;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(wide) : "r"(a), "r"(b));
    y[i++] = (unsigned)(wide >> 32), y[i++] = (unsigned)wide;
    asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(7)); y[i++] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(r) : "r"(a), "r"(b), "r"(0xff00ff00)); y[i++] = r;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(4), "r"(9)); y[i++] = r;
    asm("bfi.b32 %0, %1, %2, 8, 12;" : "=r"(r) : "r"(a), "r"(b)); y[i++] = r;
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(r) : "r"(a), "r"(b)); y[i++] = r;
    asm("shl.b32 %0, %1, 33;" : "=r"(r) : "r"(a)); y[i++] = r;
    asm("shr.s32 %0, %1, 40;" : "=r"(r) : "r"(a | 0x80000000)); y[i++] = r;
    asm("{\n\t.reg .pred p, q;\n\tsetp.lt.s32 p, %1, %2;\n\t@p  mov.u32 %0, 5;\n\t@!p mov.u32 %0, 6;\n\t}"
        : "=r"(r) : "r"(a), "r"(b)); y[i++] = r;
    asm("{ .reg .b32 t<2>; add.u32 t0, %1, %2; sub.u32 t1, t0, 1; xor.b32 %0, t0, t1; }"
        : "=r"(r) : "r"(a), "r"(b)); y[i++] = r;
    unsigned low, high;
    asm("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "l"(wide)); y[i++] = low ^ high;
    asm("mov.b64 %0, {%1, %2};" : "=l"(wide) : "r"(b), "r"(a)); y[i++] = (unsigned)(wide >> 32) - b;
    asm("clz.b32 %0, %1;" : "=r"(r) : "r"(a)); y[i++] = r;
}
extern "C" __global__ void floats(const float* x, float* y) {
    const float a = x[0], b = x[1];
    float r;
    int i = 0;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(1.0f)); y[i++] = r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); y[i++] = r;
    asm("add.f32 %0, %1, 0f3F800000;" : "=f"(r) : "f"(a)); y[i++] = r;
    asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); y[i++] = r;
    int n;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(n) : "f"(b)); y[i++] = n;
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
    asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, hi; }" : "=f"(r) : "r"(pair)); y[i++] = r;
    float sum = 1.0f;
    asm("mul.f32 %0, %0, %1;" : "+f"(sum) : "f"(a)); y[i++] = sum;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(pair) : "f"(1.0f + 0x1p-11f)); y[i++] = __uint_as_float(pair);
}
extern "C" __global__ void warps(unsigned* y) {
    unsigned r, mask, got;
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(r) : "r"(lane()));
    asm volatile("{ .reg .pred p; setp.gt.u32 p, %1, 29; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(got) : "r"(lane()));
    asm volatile("bar.sync 0;");
    asm volatile("red.global.add.u32 [%0], %1;" :: "l"(y + 96), "r"(lane()) : "memory");
    y[threadIdx.x] = mask, y[32 + threadIdx.x] = r, y[64 + threadIdx.x] = got;
}
extern "C" __global__ void vectors(const float* x, float* y) {
    float a, b, c, d;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + 4 * threadIdx.x));
    asm volatile("st.global.cs.v2.f32 [%0 + 8], {%1, %2};" :: "l"(y + 4 * threadIdx.x), "f"(d), "f"(c) : "memory");
    asm volatile("st.global.f32 [%0], %1;\n\tst.global.f32 [%0+4], %2;" :: "l"(y + 4 * threadIdx.x), "f"(b), "f"(a));
}
extern "C" __global__ void copied(const float* x, float* y, int valid) {
    __shared__ __align__(16) float s[2][128];
    for (int stage = 0; stage < 2; ++stage) {
        const unsigned to = (unsigned)__cvta_generic_to_shared(&s[stage][4 * threadIdx.x]);
        const int size = 4 * threadIdx.x + 4 <= valid ? 16 : 0;
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2, %3;\n"
                     :: "r"(to), "l"(x + 128 * stage + 4 * threadIdx.x), "n"(16), "r"(size));
        asm volatile("cp.async.commit_group;\n" ::);
    }
    asm volatile("cp.async.wait_group %0;\n" :: "n"(1));
    y[128 + 4 * threadIdx.x] = threadIdx.x < 2 ? s[1][4 * threadIdx.x] : 0;  // not yet: that copy is not waited for
    __syncwarp();
    for (int i = threadIdx.x; i < 128; i += 32) y[i] = s[0][127 - i];
    asm volatile("cp.async.wait_all;");
    __syncwarp();
    y[129] = s[1][3];
}
// a [16, 16] by rows, b [16, 8] by rows; c = a b.
extern "C" __global__ void matrices(const __half* a, const __half* b, float* c) {
    __shared__ __align__(16) __half sa[16][16], sb[16][8];
    for (int i = threadIdx.x; i < 256; i += 32) sa[i / 16][i % 16] = a[i];
    for (int i = threadIdx.x; i < 128; i += 32) sb[i / 8][i % 8] = b[i];
    __syncwarp();
    unsigned fa[4], fb[2];
    float d[4] = {1, 1, 1, 1};
    LDMATRIX_X4(fa[0], fa[1], fa[2], fa[3], (unsigned)__cvta_generic_to_shared(&sa[threadIdx.x % 16][threadIdx.x / 16 * 8]));
    LDMATRIX_X2_TRANS(fb[0], fb[1], (unsigned)__cvta_generic_to_shared(&sb[threadIdx.x % 16][0]));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
}
// a [16, 32] by rows, b [8, 32] by rows; c = a b^T, in bytes.
extern "C" __global__ void bytes(const unsigned* a, const unsigned* b, int* c) {
    const int row = threadIdx.x / 4, k = threadIdx.x % 4;
    int d[4];
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[row * 8 + k]), "r"(a[(row + 8) * 8 + k]), "r"(a[row * 8 + k + 4]), "r"(a[(row + 8) * 8 + k + 4]),
          "r"(b[row * 8 + k]), "r"(b[row * 8 + k + 4]), "r"(0));
    for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + k * 2 + i % 2] = d[i];
}
