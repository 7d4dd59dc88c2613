// Arrays, texture objects and surface objects. An array is device memory row by row; an object is the
// address of a description that lies on the device.
#pragma once
#include "api.h"
#include "image_types.h"

extern "C" {
cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned flags = 0);
cudaError_t cudaFreeArray(cudaArray_t array);
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy);
cudaError_t cuemu_make_image(unsigned long long* object, const CuemuImage* image);
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object);
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object);
}

inline cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format, size_t width, size_t height = 0,
                                   unsigned flags = 0) {
    return cudaMalloc3DArray(array, format, {width, height, 0}, flags);
}
inline cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
    if (format) *format = array->format;
    if (extent) *extent = {array->width, array->height, array->depth};
    if (flags) *flags = array->flags;
    return cudaSuccess;
}
inline cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, cudaArray_const_t array) { return *format = array->format, cudaSuccess; }

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) { return {x, y, z, w, kind}; }
namespace cuemu {
// T as the elements of an array: how many numbers, and of which kind.
template <class T> struct Texel { using type = T; static constexpr int channels = 1; };
#define CUEMU_TEXEL(T, NAME)                                                                             \
    template <> struct Texel<NAME##1> { using type = T; static constexpr int channels = 1; };            \
    template <> struct Texel<NAME##2> { using type = T; static constexpr int channels = 2; };            \
    template <> struct Texel<NAME##3> { using type = T; static constexpr int channels = 3; };            \
    template <> struct Texel<NAME##4> { using type = T; static constexpr int channels = 4; };
CUEMU_TEXEL(signed char, char)
CUEMU_TEXEL(unsigned char, uchar)
CUEMU_TEXEL(short, short)
CUEMU_TEXEL(unsigned short, ushort)
CUEMU_TEXEL(int, int)
CUEMU_TEXEL(unsigned, uint)
CUEMU_TEXEL(float, float)
#undef CUEMU_TEXEL
inline int bytes_of(const cudaChannelFormatDesc& format) { return (format.x + format.y + format.z + format.w) / 8; }
inline int channels_of(const cudaChannelFormatDesc& format) { return (format.x > 0) + (format.y > 0) + (format.z > 0) + (format.w > 0); }
inline CuemuImage image_of(const cudaResourceDesc& resource, const cudaTextureDesc& read) {
    CuemuImage image{};
    const auto fill = [&](void* data, const cudaChannelFormatDesc& format, size_t width, size_t height, size_t depth, size_t pitch) {
        image.data = (char*)data, image.format = format;
        image.bytes = bytes_of(format), image.channels = channels_of(format);
        image.width = (int)width, image.height = height ? (int)height : 1, image.depth = depth ? (int)depth : 1;
        image.axes = 1 + (height > 0) + (depth > 0);
        image.pitch = pitch ? pitch : width * (size_t)image.bytes;
        image.slice = image.pitch * (size_t)image.height;
    };
    if (resource.resType == cudaResourceTypeArray) {
        const cudaArray& array = *resource.res.array.array;
        fill(array.data, array.format, array.width, array.height, array.depth, 0);
    } else if (resource.resType == cudaResourceTypePitch2D) {
        const auto& rows = resource.res.pitch2D;
        fill(rows.devPtr, rows.desc, rows.width, rows.height, 0, rows.pitchInBytes);
    } else {
        const auto& line = resource.res.linear;
        fill(line.devPtr, line.desc, line.sizeInBytes / (size_t)bytes_of(line.desc), 0, 0, 0);
    }
    image.read = read;
    return image;
}
}  // namespace cuemu
template <class T> inline cudaChannelFormatDesc cudaCreateChannelDesc() {
    using Number = typename cuemu::Texel<T>::type;
    constexpr int bits = 8 * sizeof(Number), count = cuemu::Texel<T>::channels;
    constexpr auto kind = cuemu::Number<Number>::kind;
    return {bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0,
            kind == CUEMU_FLOAT ? cudaChannelFormatKindFloat : kind == CUEMU_SIGNED ? cudaChannelFormatKindSigned : cudaChannelFormatKindUnsigned};
}
__attribute__((always_inline)) inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                                                                          const cudaTextureDesc* read, const cudaResourceViewDesc*) {
    const CuemuImage image = cuemu::image_of(*resource, *read);
    return cuemu_make_image(object, &image);
}
__attribute__((always_inline)) inline cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
    const CuemuImage image = cuemu::image_of(*resource, cudaTextureDesc{});
    return cuemu_make_image(object, &image);
}

// Copies between arrays and memory are copies of rows.
#define CUEMU_ROWS __attribute__((always_inline)) inline cudaError_t
CUEMU_ROWS cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t height,
                               cudaMemcpyKind kind) {
    const size_t row = to->width * to->element;
    return cudaMemcpy2D((char*)to->data + y * row + x, row, from, pitch, width, height, kind);
}
CUEMU_ROWS cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t height,
                                    cudaMemcpyKind kind, cudaStream_t stream = 0) {
    const size_t row = to->width * to->element;
    return cudaMemcpy2DAsync((char*)to->data + y * row + x, row, from, pitch, width, height, kind, stream);
}
CUEMU_ROWS cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
                                 cudaMemcpyKind kind) {
    const size_t row = from->width * from->element;
    return cudaMemcpy2D(to, pitch, (char*)from->data + y * row + x, row, width, height, kind);
}
CUEMU_ROWS cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t size, cudaMemcpyKind kind) {
    return cudaMemcpy((char*)to->data + y * to->width * to->element + x, from, size, kind);
}
CUEMU_ROWS cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t size, cudaMemcpyKind kind) {
    return cudaMemcpy(to, (char*)from->data + y * from->width * from->element + x, size, kind);
}
#undef CUEMU_ROWS

#include "../images.h"
