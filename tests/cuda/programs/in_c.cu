// sources: in_c.cu in_c_sum.c
// arguments: 3
// expect: 3 2 1 from C, doubled: 12
// A program whose other file is C, in the oldest spelling; and a launch as old formatters write it.
#include <cstdio>
#include <cstdlib>

extern "C" int sum_of(int* values, int count);

__global__ void twice(int* value) { *value *= 2; }

int main(int, char** arguments) {
    const int count = std::atoi(arguments[1]);
    int values[3] = {}, total, *device;
    for (int i = 0; i < count; ++i) values[i] = count - i;
    total = sum_of(values, count);
    cudaMalloc(&device, sizeof(int));
    cudaMemcpy(device, &total, sizeof(int), cudaMemcpyHostToDevice);
    twice << < 1, 1 >> > (device);
    cudaMemcpy(&total, device, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("%d %d %d from C, doubled: %d\n", values[0], values[1], values[2], total);
    cudaFree(device);
}
