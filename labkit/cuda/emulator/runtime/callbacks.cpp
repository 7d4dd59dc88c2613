// What the trace build of a .cu file calls: the compiler's instrumentation, and its memcpy.
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trace.h"

using cuemu::Tracer;

// What -fsanitize=thread and -fsanitize-coverage=trace-pc call. The callback precedes the access.
extern "C" {
#define CUEMU_HERE __builtin_return_address(0)
#define CUEMU_ACCESS(NAME, SIZE, KIND) \
    void NAME(void* address) { if (Tracer* t = Tracer::active) t->access(address, SIZE, KIND, CUEMU_HERE); }
#define CUEMU_SIZES(N)                                              \
    CUEMU_ACCESS(__tsan_read##N, N, cuemu::kRead)                   \
    CUEMU_ACCESS(__tsan_write##N, N, cuemu::kWrite)                 \
    CUEMU_ACCESS(__tsan_unaligned_read##N, N, cuemu::kRead)         \
    CUEMU_ACCESS(__tsan_unaligned_write##N, N, cuemu::kWrite)       \
    CUEMU_ACCESS(__tsan_volatile_read##N, N, cuemu::kRead)          \
    CUEMU_ACCESS(__tsan_volatile_write##N, N, cuemu::kWrite)
CUEMU_SIZES(1)
CUEMU_SIZES(2)
CUEMU_SIZES(4)
CUEMU_SIZES(8)
CUEMU_SIZES(16)

void __tsan_init() {}
void __tsan_func_entry(void*) { if (Tracer* t = Tracer::active) t->function(+1); }
void __tsan_func_exit(void*) { if (Tracer* t = Tracer::active) t->function(-1); }
void __sanitizer_cov_trace_pc() { if (Tracer* t = Tracer::active) t->basic_block(CUEMU_HERE); }
// An object's pointer to its class's virtual functions.
void __tsan_vptr_update(void** at, void*) { if (Tracer* t = Tracer::active) t->access(at, sizeof(*at), cuemu::kWrite, CUEMU_HERE); }
void __tsan_vptr_read(void** at) { if (Tracer* t = Tracer::active) t->access(at, sizeof(*at), cuemu::kRead, CUEMU_HERE); }

// A struct or a block of bytes is copied by the widest accesses that its size and place allow.
static void cuemu_range(char* address, size_t size, cuemu::Access access, const void* site) {
    Tracer* t = Tracer::active;
    const size_t together = size | reinterpret_cast<size_t>(address) | 16;
    const size_t width = together & -together;
    for (size_t i = 0; t && i < size; i += width) t->access(address + i, static_cast<unsigned>(width), access, site, i > 0);
}
void __tsan_read_range(void* p, unsigned long n) { cuemu_range(static_cast<char*>(p), n, cuemu::kRead, CUEMU_HERE); }
void __tsan_write_range(void* p, unsigned long n) { cuemu_range(static_cast<char*>(p), n, cuemu::kWrite, CUEMU_HERE); }
// What kernels call as memcpy, memmove and memset (see cuemu.h; clang calls them by other names). The
// read has a site of its own, one byte back in the same call.
#define CUEMU_JUST_BEFORE (static_cast<const char*>(CUEMU_HERE) - 1)
void* cuemu_trace_memcpy(void* to, const void* from, size_t n) {
    cuemu_range(static_cast<char*>(const_cast<void*>(from)), n, cuemu::kRead, CUEMU_JUST_BEFORE);
    cuemu_range(static_cast<char*>(to), n, cuemu::kWrite, CUEMU_HERE);
    return memcpy(to, from, n);
}
void* cuemu_trace_memmove(void* to, const void* from, size_t n) {
    cuemu_range(static_cast<char*>(const_cast<void*>(from)), n, cuemu::kRead, CUEMU_JUST_BEFORE);
    cuemu_range(static_cast<char*>(to), n, cuemu::kWrite, CUEMU_HERE);
    return memmove(to, from, n);
}
void* cuemu_trace_memset(void* to, int byte, size_t n) {
    cuemu_range(static_cast<char*>(to), n, cuemu::kWrite, CUEMU_HERE);
    return memset(to, byte, n);
}
void* __tsan_memcpy(void*, const void*, size_t) __attribute__((alias("cuemu_trace_memcpy")));
void* __tsan_memmove(void*, const void*, size_t) __attribute__((alias("cuemu_trace_memmove")));
void* __tsan_memset(void*, int, size_t) __attribute__((alias("cuemu_trace_memset")));

// What -fsanitize=shift-exponent, bounds and integer-divide-by-zero call: the compiler's notes on the place,
// and both operands, as values where they fit a pointer.
struct CuemuType {
    uint16_t kind;  // 0: an integer
    uint16_t info;  // bit 0: signed; above: log2 of its bits
    char name[1];   // and more: 'float [8]'
    int64_t number(uintptr_t value) const {
        const unsigned unused = 64 - (1u << (info >> 1));
        return info & 1 ? static_cast<int64_t>(value << unused) >> unused : static_cast<int64_t>(value);
    }
};
struct CuemuShift {
    const char* file;
    uint32_t line, column;
    const CuemuType *number, *places;
};
void __ubsan_handle_shift_out_of_bounds(const CuemuShift* about, uintptr_t, uintptr_t places) {
    if (Tracer* t = Tracer::active) t->shifts_too_far(1u << (about->number->info >> 1), about->places->number(places), CUEMU_HERE);
}
struct CuemuBounds {
    const char* file;
    uint32_t line, column;
    const CuemuType *array, *index;
};
void __ubsan_handle_out_of_bounds(const CuemuBounds* about, uintptr_t index) {
    Tracer* t = Tracer::active;
    const char* array = t ? t->own_array(about->file, about->line, about->column) : nullptr;
    if (array) t->leaves_own_array(array, about->array->name, about->index->number(index), CUEMU_HERE);
}
void __ubsan_handle_divrem_overflow(const void*, uintptr_t, uintptr_t) {
    if (Tracer* t = Tracer::active) t->divides_by_zero(CUEMU_HERE);
    raise(SIGFPE);  // what x86-64 does at the division, and arm64 does not
}
void cuemu_trace_compared(void* address, int size, uint64_t expected) {
    if (Tracer* t = Tracer::active) t->compared(address, static_cast<unsigned>(size), expected);
}
void cuemu_trace_atomic(void* address, int size, const void* site) {
    if (Tracer* t = Tracer::active) t->access(address, static_cast<unsigned>(size), cuemu::kAtomic, site);
}
}
