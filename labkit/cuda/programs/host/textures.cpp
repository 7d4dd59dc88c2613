// Arrays and objects: device memory, and a description of it that lies on the device, too.
#include "../../emulator/include/cuemu/abi.h"
#include "../../emulator/include/cuemu/host/image_types.h"

#include "ask.h"

using cuemu::ask;
using cuemu::noted;
using cuemu::number;
using cuemu::tell;

extern "C" {

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind);

cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned flags) {
    const auto element = static_cast<size_t>(format->x + format->y + format->z + format->w) / 8;
    const size_t rows = (extent.height ? extent.height : 1) * (extent.depth ? extent.depth : 1);
    const cuemu::Answer answer = ask("cudaMallocArray", CUEMU_SITE, {static_cast<int64_t>(extent.width * element * rows)});
    if (answer.error) return noted(answer.error);
    *array = new cudaArray{reinterpret_cast<void*>(answer.values[0]), *format, extent.width, extent.height, extent.depth, element, flags};
    return cudaSuccess;
}
cudaError_t cudaFreeArray(cudaArray_t array) {
    if (!array) return cudaSuccess;
    const cudaError_t error = tell("cudaFreeArray", CUEMU_SITE, {number(array->data)});
    delete array;
    return error;
}

// One side of a copy in three dimensions: where it starts, and bytes from row to row and slice to slice.
struct Side {
    char* start;
    size_t pitch, slice;
};
static Side side(const cudaArray* array, const cudaPos& at, const cudaPitchedPtr& memory) {
    if (array) {
        const size_t pitch = array->width * array->element, slice = pitch * (array->height ? array->height : 1);
        return {static_cast<char*>(array->data) + at.z * slice + at.y * pitch + at.x * array->element, pitch, slice};
    }
    const size_t slice = memory.pitch * memory.ysize;
    return {static_cast<char*>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x, memory.pitch, slice};
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy) {
    const cudaArray* const either = copy->srcArray ? copy->srcArray : copy->dstArray;
    const Side from = side(copy->srcArray, copy->srcPos, copy->srcPtr), to = side(copy->dstArray, copy->dstPos, copy->dstPtr);
    const size_t width = copy->extent.width * (either ? either->element : 1);
    const size_t height = copy->extent.height ? copy->extent.height : 1, depth = copy->extent.depth ? copy->extent.depth : 1;
    for (size_t z = 0; z < depth; ++z) {
        const cudaError_t error =
            cudaMemcpy2D(to.start + z * to.slice, to.pitch, from.start + z * from.slice, from.pitch, width, height, copy->kind);
        if (error) return error;
    }
    return cudaSuccess;
}

cudaError_t cuemu_make_image(unsigned long long* object, const CuemuImage* image) {
    const cuemu::Answer answer = ask("cudaCreateTextureObject", CUEMU_SITE, {number(image->data)}, image, sizeof(*image));
    *object = static_cast<unsigned long long>(answer.values[0]);
    return noted(answer.error);
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
    return tell("cudaDestroyTextureObject", CUEMU_SITE, {static_cast<int64_t>(object)});
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
    return tell("cudaDestroyTextureObject", CUEMU_SITE, {static_cast<int64_t>(object)});
}

}
