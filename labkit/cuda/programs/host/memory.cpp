// Memory: allocation, copies, fills, symbols.
#include <string.h>

#include "ask.h"

using cuemu::ask;
using cuemu::noted;
using cuemu::number;
using cuemu::tell;

extern "C" {

void cuemu_share(int64_t address, int64_t size);
void cuemu_unshare(int64_t address, int64_t size);

static cudaError_t allocated(const char* name, const void* site, void** pointer, size_t size, int64_t flags = 0) {
    if (!pointer) return noted(cudaErrorInvalidValue);
    const cuemu::Answer answer = ask(name, site, {static_cast<int64_t>(size), flags});
    if (answer.error) return noted(answer.error);
    *pointer = reinterpret_cast<void*>(answer.values[0]);
    if (answer.values[1]) cuemu_share(answer.values[0], answer.values[1]);
    return cudaSuccess;
}

static cudaError_t freed(const char* name, const void* site, void* pointer) {
    const cuemu::Answer answer = ask(name, site, {number(pointer)});
    if (answer.values[1]) cuemu_unshare(number(pointer), answer.values[1]);
    return noted(answer.error);
}

cudaError_t cudaMalloc(void** pointer, size_t size) { return allocated("cudaMalloc", CUEMU_SITE, pointer, size); }
cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
    return allocated("cudaMallocAsync", CUEMU_SITE, pointer, size, number(stream));
}
cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned flags) {
    return allocated("cudaMallocManaged", CUEMU_SITE, pointer, size, flags);
}
cudaError_t cudaMallocHost(void** pointer, size_t size, unsigned flags) {
    return allocated("cudaMallocHost", CUEMU_SITE, pointer, size, flags);
}
cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned flags) {
    return allocated("cudaHostAlloc", CUEMU_SITE, pointer, size, flags);
}
cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return allocated("cudaMallocPitch", CUEMU_SITE, pointer, *pitch * height);
}
cudaError_t cudaFree(void* pointer) { return freed("cudaFree", CUEMU_SITE, pointer); }
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return freed("cudaFreeAsync", CUEMU_SITE, pointer); }
cudaError_t cudaFreeHost(void* pointer) { return freed("cudaFreeHost", CUEMU_SITE, pointer); }

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    *device = host;
    return tell("cudaHostGetDevicePointer", CUEMU_SITE, {number(host)});
}
cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned) {
    return tell("cudaHostRegister", CUEMU_SITE, {number(pointer), static_cast<int64_t>(size)});
}
cudaError_t cudaHostUnregister(void* pointer) { return tell("cudaHostUnregister", CUEMU_SITE, {number(pointer)}); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    const cuemu::Answer answer = ask("cudaMemGetInfo", CUEMU_SITE, {});
    *free = static_cast<size_t>(answer.values[0]), *total = static_cast<size_t>(answer.values[1]);
    return noted(answer.error);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    const cuemu::Answer answer = ask("cudaPointerGetAttributes", CUEMU_SITE, {number(pointer)});
    const auto type = static_cast<cudaMemoryType>(answer.values[0]);
    void* const given = const_cast<void*>(pointer);
    attributes->type = type;
    attributes->device = 0;
    attributes->devicePointer = type == cudaMemoryTypeUnregistered ? nullptr : given;
    attributes->hostPointer = type == cudaMemoryTypeDevice ? nullptr : given;
    return noted(answer.error);
}
cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned) { return cudaSuccess; }

// Rows of `width` bytes. labkit checks and orders the copy, and does it where it can reach both
// sides; pageable host memory it cannot, so this process does, once everything before has run.
static cudaError_t copied(const char* name, const void* site, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                          size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
    const cuemu::Answer answer =
        ask(name, site, {number(to), number(from), static_cast<int64_t>(width), static_cast<int64_t>(height),
                         static_cast<int64_t>(to_pitch), static_cast<int64_t>(from_pitch), kind, number(stream), wait});
    if (answer.error || !answer.values[0]) return noted(answer.error);
    if (answer.values[0] == 2) return cuemu::copy_later(site, to, to_pitch, from, from_pitch, width, height, stream);
    char* const target = cuemu::window(to) ? cuemu::window(to) : static_cast<char*>(to);
    const char* const source = cuemu::window(from) ? cuemu::window(from) : static_cast<const char*>(from);
    for (size_t row = 0; row < height; ++row) memmove(target + row * to_pitch, source + row * from_pitch, width);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
    return copied("cudaMemcpy", CUEMU_SITE, to, size, from, size, size, 1, kind, 0, true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
    return copied("cudaMemcpyAsync", CUEMU_SITE, to, size, from, size, size, 1, kind, stream, false);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
    return copied("cudaMemcpy2D", CUEMU_SITE, to, to_pitch, from, from_pitch, width, height, kind, 0, true);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return copied("cudaMemcpy2DAsync", CUEMU_SITE, to, to_pitch, from, from_pitch, width, height, kind, stream, false);
}

static cudaError_t filled(const char* name, const void* site, void* pointer, size_t pitch, int value, size_t width,
                          size_t height, cudaStream_t stream) {
    return tell(name, site, {number(pointer), value, static_cast<int64_t>(width), static_cast<int64_t>(height),
                             static_cast<int64_t>(pitch), number(stream)});
}
cudaError_t cudaMemset(void* pointer, int value, size_t size) {
    return filled("cudaMemset", CUEMU_SITE, pointer, size, value, size, 1, 0);
}
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t size, cudaStream_t stream) {
    return filled("cudaMemsetAsync", CUEMU_SITE, pointer, size, value, size, 1, stream);
}
cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height) {
    return filled("cudaMemset2D", CUEMU_SITE, pointer, pitch, value, width, height, 0);
}
cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    return filled("cudaMemset2DAsync", CUEMU_SITE, pointer, pitch, value, width, height, stream);
}

// A variable of the device is named by where the host's build has its namesake.
static int64_t place(const void* symbol) { return static_cast<int64_t>(cuemu::offset_of(symbol)); }

cudaError_t cuemu_symbol(void** address, size_t* size, const void* symbol) {
    const cuemu::Answer answer = ask("cudaGetSymbolAddress", CUEMU_SITE, {place(symbol)});
    if (address) *address = reinterpret_cast<void*>(answer.values[0]);
    if (size) *size = static_cast<size_t>(answer.values[1]);
    return noted(answer.error);
}
cudaError_t cuemu_to_symbol(const void* symbol, const void* from, size_t size, size_t offset, cudaMemcpyKind,
                            cudaStream_t stream) {
    const auto bytes = static_cast<int64_t>(size), start = static_cast<int64_t>(offset);
    const bool device = cuemu::window(from) != nullptr;
    return tell("cudaMemcpyToSymbol", CUEMU_SITE, {place(symbol), bytes, start, number(stream), device ? number(from) : 0},
                from, device ? 0 : size);
}
cudaError_t cuemu_from_symbol(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind, cudaStream_t stream) {
    const auto bytes = static_cast<int64_t>(size), start = static_cast<int64_t>(offset);
    const bool device = cuemu::window(to) != nullptr;
    const cuemu::Answer answer =
        ask("cudaMemcpyFromSymbol", CUEMU_SITE, {place(symbol), bytes, start, number(stream), device ? number(to) : 0});
    if (!answer.error && !device) memcpy(to, answer.data.data(), answer.data.size());
    return noted(answer.error);
}

}
