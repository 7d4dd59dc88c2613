// Touching what is not there, or not filled, or not aligned.

//: out_of_bounds 4 32 f:100 z:100
extern "C" __global__ void no_guard(const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] + 1.0f;  // BUG
}

//: out_of_bounds 4 32 f:100 z:100 100
extern "C" __global__ void guard_off_by_one(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = x[0];  // BUG
}

//: out_of_bounds 1 32 f:32 z:32
extern "C" __global__ void reads_before_the_start(const float* x, float* y) {
    const int i = threadIdx.x;
    y[i] = x[i] - x[i - 1];  // BUG
}

//: out_of_bounds 1 32 z:32
extern "C" __global__ void wild_pointer(float* y) {
    if (threadIdx.x == 7) y[1ll << 40] = 1.0f;  // BUG
}

//: out_of_bounds 1 32 z:32
extern "C" __global__ void null_pointer(float* y) {
    float* nowhere = y[0] == 0.0f ? nullptr : y;
    if (threadIdx.x == 3) *nowhere = 1.0f;  // BUG
}

//: out_of_bounds 1 33 f:33 z:33
extern "C" __global__ void shared_one_too_small(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];  // BUG
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x % 32];
}

//: out_of_bounds 1 32 f:32 z:32 shared=64
extern "C" __global__ void dynamic_too_small(const float* x, float* y) {
    extern __shared__ float scratch[];
    scratch[threadIdx.x] = x[threadIdx.x];  // BUG
    __syncthreads();
    y[threadIdx.x] = scratch[threadIdx.x];
}

//: out_of_bounds 1x4 16x4 f:250 z:250 250
extern "C" __global__ void rows_mixed_up_with_columns(const float* x, float* y, int n) {
    const int row = blockIdx.y * 4 + threadIdx.y, column = threadIdx.x;
    y[row * 16 + column] = x[row * 16 + column];  // BUG
}

//: out_of_bounds 1 32 f:126 z:126
extern "C" __global__ void vector_tail(const float* x, float* y) {
    ((float4*)y)[threadIdx.x] = ((const float4*)x)[threadIdx.x];  // BUG
}

//: out_of_bounds 1 32 i:32 z:32
extern "C" __global__ void index_from_data(const int* x, int* y) {
    y[x[threadIdx.x] * 2] = 1;  // BUG
}

__constant__ float weights[9];
//: out_of_bounds 1 32 z:32
extern "C" __global__ void past_a_constant(float* y) {
    y[threadIdx.x] = weights[threadIdx.x / 3];  // BUG
}

//: out_of_bounds 2 32 f:64 z:64 64
extern "C" __global__ void loop_runs_over(const float* x, float* y, int n) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n + 32; i += 32) {
        sum += x[i];  // BUG
    }
    y[blockIdx.x * 32 + threadIdx.x] = sum;
}

//: uninitialised 1 64 f:64 z:64
extern "C" __global__ void half_filled(const float* x, float* y) {
    __shared__ float s[64];
    if (threadIdx.x < 32) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];  // BUG
}

//: uninitialised 1 64 i:64 z:8
extern "C" __global__ void histogram_not_cleared(const int* x, int* y) {
    __shared__ int bins[8];
    atomicAdd(&bins[x[threadIdx.x] % 8], 1);  // BUG
    __syncthreads();
    if (threadIdx.x < 8) y[threadIdx.x] = bins[threadIdx.x];
}

//: uninitialised 1 32 f:32 z:32
extern "C" __global__ void halo_forgotten(const float* x, float* y) {
    __shared__ float s[34];
    s[threadIdx.x + 1] = x[threadIdx.x];
    if (threadIdx.x == 0) s[0] = 0.0f;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 2];  // BUG
}

//: uninitialised 2 32 f:32 z:64
extern "C" __global__ void filled_by_the_first_block_only(const float* x, float* y) {
    __shared__ float s[32];
    if (blockIdx.x == 0) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];  // BUG
}

//: misaligned 1 16 f:65 z:64
extern "C" __global__ void float4_from_an_odd_start(const float* x, float* y) {
    ((float4*)y)[threadIdx.x] = *(const float4*)(x + 1 + 4 * threadIdx.x);  // BUG
}

//: misaligned 1 32 b:132 z:32
extern "C" __global__ void int_from_any_byte(const unsigned char* x, int* y) {
    y[threadIdx.x] = *(const int*)(x + 3 * threadIdx.x);  // BUG
}

//: misaligned 1 16 f:128 z:32
extern "C" __global__ void rows_of_odd_length(const float* x, float* y) {
    const float2* row = (const float2*)(x + 7 * threadIdx.x);
    const float2 pair = *row;  // BUG
    y[threadIdx.x] = pair.x;
    y[threadIdx.x + 16] = 1.0f;
}

//: out_of_bounds 1 256 z:256 z:256
extern "C" __global__ void an_array_further(int* y, int* z) {
    y[threadIdx.x + 256] = 1;  // BUG
}

//: out_of_bounds 1 32 z:32
extern "C" __global__ void shared_read_one_further(int* y) {
    __shared__ int s[32];
    s[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x + 1];  // BUG
}

//: undefined 1 1 z:4 32
extern "C" __global__ void shifted_out(int* y, int n) {
    y[0] = 1 << n;  // BUG
}

//: undefined 1 1 z:4 -1
extern "C" __global__ void shifted_backwards(int* y, int n) {
    y[0] = 7 >> n;  // BUG
}

//: undefined 1 4 i:4 z:4
extern "C" __global__ void divided_by_zero(const int* x, int* y) {
    y[threadIdx.x] = 100 / x[threadIdx.x];  // BUG
}

//: clean 1 32 z:32
extern "C" __global__ void shifted_by_all_that_fit(int* y) {
    y[threadIdx.x] = static_cast<int>(1u << threadIdx.x) >> threadIdx.x;
}

//: out_of_bounds 1 32 f:160 z:32
extern "C" __global__ void own_array_one_too_small(const float* x, float* y) {
    float taps[4];
    for (int k = 0; k <= 4; ++k) taps[k] = x[threadIdx.x + k];  // BUG
    y[threadIdx.x] = taps[0] + taps[1] + taps[2] + taps[3];
}

//: out_of_bounds 1 32 f:160 z:32 3
extern "C" __global__ void own_row_left(const float* x, float* y, int n) {
    float first, sums[2][3] = {{0.0f}};
    first = x[0];
    for (int k = 0; k < 6; ++k) sums[k / n][k % (n + 1)] += x[threadIdx.x];  // BUG
    y[threadIdx.x] = first + sums[1][2];
}

//: out_of_bounds 1 32 i:32 z:32
extern "C" __global__ void own_table_by_data(const int* x, int* y) {
    const int squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
    y[threadIdx.x] = squares[x[threadIdx.x]];  // BUG
}

//: clean 1 128 f:128 z:128
extern "C" __global__ void a_tile_read_as_one_row(const float* x, float* y) {
    __shared__ float tile[4][32];
    tile[0][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[0][127 - threadIdx.x];
}

__device__ float last_of_tile(const float rows[4][32]) { return rows[0][127]; }
struct Taps {
    float near[2], far[2];
};

//: clean 1 128 f:136 z:128
extern "C" __global__ void own_arrays_to_their_ends(const float* x, float* y) {
    __shared__ float tile[4][32];
    tile[threadIdx.x / 32][threadIdx.x % 32] = x[threadIdx.x];
    __syncthreads();
    float own[8];
    for (float* p = own; p != &own[8]; ++p) *p = x[threadIdx.x + (p - own)];
    Taps taps = {{own[0], own[1]}, {own[6], own[7]}};
    y[threadIdx.x] = taps.near[1] + taps.far[1] + last_of_tile(tile);
}
