// expect: between the elements: 0.5 4.5
// expect: beyond the edge: 0.0 7.0 border 0.0
// expect: gathered: 4 5 1 0
// expect: wrapped round: 1.0, mirrored: 0.0
// expect: bytes as fractions: 1.000 0.502
// expect: rows with a pitch: 13
// expect: a line fetched by number: 5 0
// expect: layer 1: 12.0
// expect: a surface: 30 31, of 32 bits
// Textures and surfaces over arrays, rows with a pitch, and plain memory.
#include <cstdio>

__global__ void sample(cudaTextureObject_t image, const float2* at, float* out) {
    out[threadIdx.x] = tex2D<float>(image, at[threadIdx.x].x, at[threadIdx.x].y);
}
__global__ void gathered(cudaTextureObject_t image, float4* out) { *out = tex2Dgather<float4>(image, 1.0f, 1.0f); }
__global__ void fractions(cudaTextureObject_t image, float4* out) { *out = tex2D<float4>(image, 0.5f, 0.5f); }
__global__ void whole(cudaTextureObject_t rows, cudaTextureObject_t line, int* out) {
    out[0] = tex2D<int>(rows, 3, 1), out[1] = tex1Dfetch<int>(line, 5), out[2] = tex1Dfetch<int>(line, 100);
}
__global__ void layered(cudaTextureObject_t image, float* out) { *out = tex2DLayered<float>(image, 1.5f, 0.5f, 1); }
__global__ void put(cudaSurfaceObject_t image) { surf2Dwrite((int)(10 * threadIdx.y + threadIdx.x), image, threadIdx.x * sizeof(int), threadIdx.y); }
__global__ void get(cudaSurfaceObject_t image, int* out) { out[threadIdx.x] = surf2Dread<int>(image, threadIdx.x * sizeof(int), 3); }

static cudaTextureObject_t texture_of(cudaArray_t array, cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized,
                                      cudaTextureReadMode read = cudaReadModeElementType) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = mode;
    how.filterMode = filter, how.normalizedCoords = normalized, how.readMode = read;
    cudaTextureObject_t made;
    cudaCreateTextureObject(&made, &resource, &how, nullptr);
    return made;
}

int main() {
    float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    float2* at;
    float* out;
    cudaMallocManaged(&at, 4 * sizeof(float2));
    cudaMallocManaged(&out, 16 * sizeof(float));
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    cudaMallocArray(&array, &format, 4, 2);
    cudaMemcpy2DToArray(array, 0, 0, numbers, 4 * sizeof(float), 4 * sizeof(float), 2, cudaMemcpyHostToDevice);

    cudaTextureObject_t image = texture_of(array, cudaAddressModeClamp, cudaFilterModeLinear, false);
    at[0] = make_float2(1.0f, 0.5f), at[1] = make_float2(1.0f, 1.5f), at[2] = make_float2(-9.0f, -9.0f), at[3] = make_float2(9.0f, 9.0f);
    sample<<<1, 4>>>(image, at, out);
    cudaDeviceSynchronize();
    printf("between the elements: %.1f %.1f\n", out[0], out[1]);
    const float low = out[2], high = out[3];
    gathered<<<1, 1>>>(image, (float4*)(out + 4));
    cudaDestroyTextureObject(image);
    image = texture_of(array, cudaAddressModeBorder, cudaFilterModePoint, false);
    sample<<<1, 4>>>(image, at, out);
    cudaDeviceSynchronize();
    printf("beyond the edge: %.1f %.1f border %.1f\n", low, high, out[3]);
    printf("gathered: %g %g %g %g\n", out[4], out[5], out[6], out[7]);
    cudaDestroyTextureObject(image);
    at[0] = make_float2(1.3f, 0.1f), at[1] = make_float2(-0.1f, -0.1f);
    image = texture_of(array, cudaAddressModeWrap, cudaFilterModePoint, true);
    sample<<<1, 1>>>(image, at, out);
    cudaDeviceSynchronize();
    cudaDestroyTextureObject(image);
    image = texture_of(array, cudaAddressModeMirror, cudaFilterModePoint, true);
    sample<<<1, 1>>>(image, at + 1, out + 1);
    cudaDeviceSynchronize();
    printf("wrapped round: %.1f, mirrored: %.1f\n", out[0], out[1]);
    cudaDestroyTextureObject(image);
    cudaFreeArray(array);

    const cudaChannelFormatDesc pixels = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
    const unsigned char pixel[4] = {255, 128, 0, 0};
    cudaMallocArray(&array, &pixels, 1, 1);
    cudaMemcpyToArray(array, 0, 0, pixel, 4, cudaMemcpyHostToDevice);
    image = texture_of(array, cudaAddressModeClamp, cudaFilterModePoint, false, cudaReadModeNormalizedFloat);
    fractions<<<1, 1>>>(image, (float4*)out);
    cudaDeviceSynchronize();
    printf("bytes as fractions: %.3f %.3f\n", out[0], out[1]);
    cudaDestroyTextureObject(image);
    cudaFreeArray(array);

    int* rows;
    size_t pitch;
    int values[20];
    for (int i = 0; i < 20; ++i) values[i] = i;
    cudaMallocPitch(&rows, &pitch, 10 * sizeof(int), 2);
    cudaMemcpy2D(rows, pitch, values, 10 * sizeof(int), 10 * sizeof(int), 2, cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    cudaTextureDesc how = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = rows, resource.res.pitch2D.desc = cudaCreateChannelDesc<int>();
    resource.res.pitch2D.width = 10, resource.res.pitch2D.height = 2, resource.res.pitch2D.pitchInBytes = pitch;
    cudaCreateTextureObject(&image, &resource, &how, nullptr);
    cudaResourceDesc flat = {};
    flat.resType = cudaResourceTypeLinear;
    flat.res.linear.devPtr = rows, flat.res.linear.desc = cudaCreateChannelDesc<int>(), flat.res.linear.sizeInBytes = 40;
    cudaTextureObject_t line;
    cudaCreateTextureObject(&line, &flat, &how, nullptr);
    int* got = (int*)out;
    whole<<<1, 1>>>(image, line, got);
    cudaDeviceSynchronize();
    printf("rows with a pitch: %d\na line fetched by number: %d %d\n", got[0], got[1], got[2]);
    cudaDestroyTextureObject(image);
    cudaDestroyTextureObject(line);
    cudaFree(rows);

    float layers[12] = {0, 1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 16};
    cudaMalloc3DArray(&array, &format, make_cudaExtent(3, 2, 2), cudaArrayLayered);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(layers, 3 * sizeof(float), 3, 2);
    copy.dstArray = array, copy.extent = make_cudaExtent(3, 2, 2), copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
    image = texture_of(array, cudaAddressModeClamp, cudaFilterModePoint, false);
    layered<<<1, 1>>>(image, out);
    cudaDeviceSynchronize();
    printf("layer 1: %.1f\n", out[0]);
    cudaDestroyTextureObject(image);
    cudaFreeArray(array);

    const cudaChannelFormatDesc integers = cudaCreateChannelDesc<int>();
    cudaMallocArray(&array, &integers, 8, 4, cudaArraySurfaceLoadStore);
    cudaChannelFormatDesc asked;
    cudaGetChannelDesc(&asked, array);
    resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    put<<<1, dim3(8, 4)>>>(surface);
    get<<<1, 8>>>(surface, got);
    cudaDeviceSynchronize();
    printf("a surface: %d %d, of %d bits\n", got[0], got[1], asked.x);
    cudaDestroySurfaceObject(surface);
    cudaFreeArray(array);
    cudaFree(at);
    cudaFree(out);
}
