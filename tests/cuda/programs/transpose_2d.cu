// expect: all 96 x 40 right
// Two dimensions: dim3 launches, pitched memory, rows copied with their own strides.
#include <cstdio>
#include <vector>

const int kTile = 16;

__global__ void transpose(const float* in, size_t in_pitch, float* out, size_t out_pitch, int width, int height) {
    __shared__ float tile[kTile][kTile + 1];
    int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * in_pitch / sizeof(float) + x];
    __syncthreads();
    x = blockIdx.y * kTile + threadIdx.x, y = blockIdx.x * kTile + threadIdx.y;
    if (x < height && y < width) out[y * out_pitch / sizeof(float) + x] = tile[threadIdx.x][threadIdx.y];
}

int main() {
    const int width = 96, height = 40;
    std::vector<float> in(width * height), out(width * height);
    for (int i = 0; i < width * height; ++i) in[i] = i;
    float *device_in, *device_out;
    size_t in_pitch, out_pitch;
    cudaMallocPitch(&device_in, &in_pitch, width * sizeof(float), height);
    cudaMallocPitch(&device_out, &out_pitch, height * sizeof(float), width);
    cudaMemcpy2D(device_in, in_pitch, in.data(), width * sizeof(float), width * sizeof(float), height, cudaMemcpyHostToDevice);
    cudaMemset2D(device_out, out_pitch, 0, height * sizeof(float), width);
    dim3 block(kTile, kTile), grid((width + kTile - 1) / kTile, (height + kTile - 1) / kTile);
    transpose<<<grid, block>>>(device_in, in_pitch, device_out, out_pitch, width, height);
    cudaMemcpy2D(out.data(), height * sizeof(float), device_out, out_pitch, height * sizeof(float), width, cudaMemcpyDeviceToHost);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            if (out[x * height + y] != in[y * width + x]) return std::printf("wrong at %d, %d\n", x, y), 1;
        }
    }
    std::printf("all %d x %d right\n", width, height);
    cudaFree(device_in);
    cudaFree(device_out);
}
