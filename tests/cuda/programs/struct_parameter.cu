// expect: 31 lies 62 in front
// A struct with vector types in it is passed to a kernel, and on to a function.
#include <cstdio>

struct Line {
    float3 start;
    float2 slope;
    int points;
};

__device__ __host__ __noinline__ float height_at(const Line line, int i) {
    return line.start.z + line.slope.y * i;
}

__global__ void heights(const Line line, float* out) {
    const int i = threadIdx.x;
    if (i < line.points) out[i] = height_at(line, i);
}

int main() {
    const Line line = {{1, 2, 3}, {1, 2}, 32};
    float* out;
    float last;
    cudaMalloc(&out, line.points * sizeof(float));
    heights<<<1, 64>>>(line, out);
    cudaMemcpy(&last, out + 31, sizeof(last), cudaMemcpyDeviceToHost);
    std::printf("31 lies %g in front\n", last - height_at(line, 0));
    cudaFree(out);
}
