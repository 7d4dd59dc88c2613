// What kernels do with textures and surfaces: fetch with filter and border, read and write by place.
#pragma once
#include "small_float.h"

#ifdef CUEMU_TRACE
#define CUEMU_UNSEEN CUEMU_QUIET
#else  // a call for each coordinate would be half of a fetch's time
#define CUEMU_UNSEEN CUEMU_INLINE
#endif

namespace cuemu {

struct Four { double x[4]; };

// One element as numbers; the read itself stands in the kernel's line.
CUEMU_INLINE Four element(const CuemuImage* image, int x, int y, int z) {
    const char* at = image->data + (size_t)z * image->slice + (size_t)y * image->pitch + (size_t)x * (size_t)image->bytes;
    const int bits = image->format.x;
    const bool whole = image->read.readMode == cudaReadModeElementType;
    Four all{};
    for (int i = 0; i < image->channels; ++i, at += bits / 8) {
        switch (image->format.f) {
            case cudaChannelFormatKindFloat: all.x[i] = bits == 32 ? *(const float*)at : Half::widen(*(const unsigned short*)at); break;
            case cudaChannelFormatKindUnsigned: {
                const unsigned v = bits == 8 ? *(const unsigned char*)at : bits == 16 ? *(const unsigned short*)at : *(const unsigned*)at;
                all.x[i] = whole ? v : v / (bits == 8 ? 255.0 : 65535.0);
                break;
            }
            default: {
                const int v = bits == 8 ? *(const signed char*)at : bits == 16 ? *(const short*)at : *(const int*)at;
                all.x[i] = whole ? v : fmax(v / (bits == 8 ? 127.0 : 32767.0), -1.0);
            }
        }
    }
    return all;
}

// Where an index beyond the edge leads; -1: to the border's colour.
CUEMU_UNSEEN int beyond(int i, int size, cudaTextureAddressMode mode, bool normalized) {
    if (i >= 0 && i < size) return i;
    if (mode == cudaAddressModeBorder) return -1;
    if (normalized && mode == cudaAddressModeWrap) return (i % size + size) % size;
    if (normalized && mode == cudaAddressModeMirror) {
        const int turn = (i % (2 * size) + 2 * size) % (2 * size);
        return turn < size ? turn : 2 * size - 1 - turn;
    }
    return i < 0 ? 0 : size - 1;
}

struct Places { int low, high; float part; };  // two neighbours, and how far it is to the second
CUEMU_UNSEEN Places places(const CuemuImage* image, float at, int size, int axis) {
    const bool normalized = image->read.normalizedCoords;
    const cudaTextureAddressMode mode = image->read.addressMode[axis];
    if (normalized) at *= (float)size;
    const bool between = image->read.filterMode == cudaFilterModeLinear;
    const float low = floorf(between ? at - 0.5f : at);
    const float part = between ? floorf((at - 0.5f - low) * 256.0f + 0.5f) / 256.0f : 0.0f;  // the hardware has 8 bits for it
    const int first = at != at ? 0 : low < -1e9f ? -1000000000 : low > 1e9f ? 1000000000 : (int)low;
    return {beyond(first, size, mode, normalized), part > 0.0f ? beyond(first + 1, size, mode, normalized) : -2, part};
}

// layer: of a layered texture or a face of a cube, else -1.
CUEMU_INLINE Four fetched(const CuemuImage* image, float x, float y, float z, int layer) {
    const Places along = places(image, x, image->width, 0);
    const Places across = image->axes > 1 && image->height > 1 ? places(image, y, image->height, 1) : Places{0, -2, 0.0f};
    const Places deep = layer >= 0 ? Places{layer, -2, 0.0f} : image->depth > 1 ? places(image, z, image->depth, 2) : Places{0, -2, 0.0f};
    const bool one_only = along.high == -2 && across.high == -2 && deep.high == -2;
    if (one_only && along.low >= 0 && across.low >= 0 && deep.low >= 0) return element(image, along.low, across.low, deep.low);
    Four sum{};
    for (int corner = 0; corner < 8; ++corner) {
        const int i = corner & 1 ? along.high : along.low, j = corner & 2 ? across.high : across.low,
                  k = corner & 4 ? deep.high : deep.low;
        if (i == -2 || j == -2 || k == -2) continue;
        const double weight = (corner & 1 ? along.part : 1.0f - along.part) * (corner & 2 ? across.part : 1.0f - across.part) *
                              (corner & 4 ? deep.part : 1.0f - deep.part);
        if (i < 0 || j < 0 || k < 0) {
            for (int c = 0; c < 4; ++c) sum.x[c] += weight * image->read.borderColor[c];
        } else {
            const Four one = element(image, i, j, k);
            for (int c = 0; c < 4; ++c) sum.x[c] += weight * one.x[c];
        }
    }
    return sum;
}

template <class T> CUEMU_INLINE T as_texel(const Four& all) {
    using Value = typename Texel<T>::type;
    constexpr int channels = Texel<T>::channels;
    if constexpr (sizeof(T) == sizeof(Value)) {
        return T{(Value)all.x[0]};
    } else {
        T made;
        made.x = (Value)all.x[0], made.y = (Value)all.x[1];
        if constexpr (channels > 2) made.z = (Value)all.x[2];
        if constexpr (channels > 3) made.w = (Value)all.x[3];
        return made;
    }
}
// The description is the hardware's business: reading it is no access of the kernel's.
CUEMU_UNSEEN CuemuImage described(unsigned long long object) { return *(const CuemuImage*)object; }

}  // namespace cuemu

#define CUEMU_TEXTURE(NAME, PARAMETERS, ...)                                                              \
    template <class T> CUEMU_INLINE T NAME PARAMETERS {                                                          \
        const CuemuImage image = cuemu::described(texture);                                                      \
        return cuemu::as_texel<T>(cuemu::fetched(&image, __VA_ARGS__));                                          \
    }
CUEMU_TEXTURE(tex1D, (cudaTextureObject_t texture, float x), x, 0.0f, 0.0f, -1)
CUEMU_TEXTURE(tex2D, (cudaTextureObject_t texture, float x, float y), x, y, 0.0f, -1)
CUEMU_TEXTURE(tex3D, (cudaTextureObject_t texture, float x, float y, float z), x, y, z, -1)
CUEMU_TEXTURE(tex1DLayered, (cudaTextureObject_t texture, float x, int layer), x, 0.0f, 0.0f, layer)
CUEMU_TEXTURE(tex2DLayered, (cudaTextureObject_t texture, float x, float y, int layer), x, y, 0.0f, layer)
#undef CUEMU_TEXTURE
template <class T> CUEMU_INLINE void tex1D(T* to, cudaTextureObject_t texture, float x) { *to = tex1D<T>(texture, x); }
template <class T> CUEMU_INLINE void tex2D(T* to, cudaTextureObject_t texture, float x, float y) { *to = tex2D<T>(texture, x, y); }
template <class T> CUEMU_INLINE void tex3D(T* to, cudaTextureObject_t texture, float x, float y, float z) {
    *to = tex3D<T>(texture, x, y, z);
}
template <class T> CUEMU_INLINE T tex1Dfetch(cudaTextureObject_t texture, int i) {  // beyond either end: 0
    const CuemuImage image = cuemu::described(texture);
    return cuemu::as_texel<T>(i < 0 || i >= image.width ? cuemu::Four{} : cuemu::element(&image, i, 0, 0));
}
// One component of the four elements that a bilinear fetch would mix: from the lower left against the clock.
template <class T> CUEMU_INLINE T tex2Dgather(cudaTextureObject_t texture, float x, float y, int component = 0) {
    const CuemuImage image = cuemu::described(texture);
    CuemuImage near = image;
    near.read.filterMode = cudaFilterModePoint;
    const float right = image.read.normalizedCoords ? 1.0f / (float)image.width : 1.0f;
    const float down = image.read.normalizedCoords ? 1.0f / (float)image.height : 1.0f;
    cuemu::Four all;
    for (int i = 0; i < 4; ++i) {
        const float along = i == 1 || i == 2 ? 0.5f : -0.5f, across = i < 2 ? 0.5f : -0.5f;
        all.x[i] = cuemu::fetched(&near, x + along * right, y + across * down, 0.0f, -1).x[component];
    }
    return cuemu::as_texel<T>(all);
}
template <class T> CUEMU_INLINE T texCubemap(cudaTextureObject_t texture, float x, float y, float z) {
    const float ax = fabsf(x), ay = fabsf(y), az = fabsf(z);
    int face;
    float along, across, most;
    if (ax >= ay && ax >= az) {
        face = x >= 0 ? 0 : 1, most = ax, along = x >= 0 ? -z : z, across = -y;
    } else if (ay >= az) {
        face = y >= 0 ? 2 : 3, most = ay, along = x, across = y >= 0 ? z : -z;
    } else {
        face = z >= 0 ? 4 : 5, most = az, along = z >= 0 ? x : -x, across = -y;
    }
    const CuemuImage image = cuemu::described(texture);
    return cuemu::as_texel<T>(cuemu::fetched(&image, (along / most + 1.0f) / 2.0f, (across / most + 1.0f) / 2.0f, 0.0f, face));
}

namespace cuemu {
// Where an element of a surface lies; null: the access counts as none. `x` is in bytes.
template <class T> CUEMU_INLINE T* on_surface(unsigned long long surface, int x, int y, int z, cudaSurfaceBoundaryMode mode) {
    const CuemuImage image = described(surface);
    const int last = image.width * image.bytes - (int)sizeof(T);
    if (x < 0 || x > last || y < 0 || y >= image.height || z < 0 || z >= image.depth) {
        if (mode == cudaBoundaryModeTrap) cuemu_trap();
        if (mode == cudaBoundaryModeZero) return nullptr;
        x = x < 0 ? 0 : x > last ? last : x, y = y < 0 ? 0 : y >= image.height ? image.height - 1 : y;
        z = z < 0 ? 0 : z >= image.depth ? image.depth - 1 : z;
    }
    return (T*)(image.data + (size_t)z * image.slice + (size_t)y * image.pitch + (size_t)x);
}
}  // namespace cuemu
#define CUEMU_SURFACE(DIMENSIONS, PARAMETERS, ...)                                                                          \
    template <class T> CUEMU_INLINE T surf##DIMENSIONS##read(cudaSurfaceObject_t surface, PARAMETERS,                        \
                                                            cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {           \
        T* at = cuemu::on_surface<T>(surface, __VA_ARGS__, mode);                                                           \
        return at ? *at : T();                                                                                              \
    }                                                                                                                       \
    template <class T> CUEMU_INLINE void surf##DIMENSIONS##write(T value, cudaSurfaceObject_t surface, PARAMETERS,           \
                                                                cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {       \
        if (T* at = cuemu::on_surface<T>(surface, __VA_ARGS__, mode)) *at = value;                                           \
    }
#define CUEMU_AND ,
CUEMU_SURFACE(1D, int x, x, 0, 0)
CUEMU_SURFACE(2D, int x CUEMU_AND int y, x, y, 0)
CUEMU_SURFACE(3D, int x CUEMU_AND int y CUEMU_AND int z, x, y, z)
CUEMU_SURFACE(2DLayered, int x CUEMU_AND int y CUEMU_AND int layer, x, y, layer)
#undef CUEMU_AND
#undef CUEMU_SURFACE
template <class T> CUEMU_INLINE void surf2Dread(T* to, cudaSurfaceObject_t surface, int x, int y,
                                                cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {
    *to = surf2Dread<T>(surface, x, y, mode);
}
#undef CUEMU_UNSEEN
