// expect: 31.5
// expect: no error
#include <cstdio>

// The row above the picture's first is read and thrown away: on a GPU, other memory lies there.
__global__ void above(const float* picture, float* out, int width) {
    const int x = threadIdx.x, y = blockIdx.x, here = y * width + x;
    float value = picture[here - width];  // finds out_of_bounds
    if (y == 0) value = picture[x];
    out[here] = value;
}

int main() {
    const int width = 64, height = 4, bytes = width * height * sizeof(float);
    float host[width * height], *picture, *out;
    for (int i = 0; i < width * height; ++i) host[i] = i % width;
    cudaMalloc(&picture, bytes);
    cudaMalloc(&out, bytes);
    cudaMemcpy(picture, host, bytes, cudaMemcpyHostToDevice);
    for (int again = 0; again < 2; ++again) above<<<height, width>>>(picture, out, width);
    cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost);
    float sum = 0;
    for (float one : host) sum += one;
    std::printf("%.1f\n%s\n", sum / (width * height), cudaGetErrorString(cudaGetLastError()));
    cudaFree(picture);
    cudaFree(out);
}
