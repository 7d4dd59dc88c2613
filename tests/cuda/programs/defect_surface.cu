// Every thread of the block writes to one element of a surface, and reads what another wrote.
#include <cstdio>

__global__ void mix(cudaSurfaceObject_t image, int* out) {
    surf2Dwrite((int)threadIdx.x, image, threadIdx.x * sizeof(int), 0);  // finds race
    out[threadIdx.x] = surf2Dread<int>(image, (threadIdx.x ^ 32) * sizeof(int), 0);
}

int main() {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaArray_t array;
    cudaMallocArray(&array, &format, 64, 1, cudaArraySurfaceLoadStore);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    int* out;
    cudaMalloc(&out, 64 * sizeof(int));
    mix<<<1, 64>>>(surface, out);
    cudaDeviceSynchronize();
    cudaDestroySurfaceObject(surface);
    cudaFreeArray(array);
    cudaFree(out);
}
