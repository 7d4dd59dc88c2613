// Shared memory as PTX addresses it: 32 bits, counted from where the running block's begins.
#pragma once

extern "C" void* cuemu_shared_base();

CUEMU_INLINE size_t __cvta_generic_to_shared(const void* p) {
    return (unsigned)((const char*)p - (const char*)cuemu_shared_base());
}
CUEMU_INLINE void* __cvta_shared_to_generic(size_t address) {
    return (char*)cuemu_shared_base() + (int)(unsigned)address;
}
CUEMU_INLINE size_t __cvta_generic_to_global(const void* p) { return (size_t)p; }
CUEMU_INLINE void* __cvta_global_to_generic(size_t address) { return (void*)address; }
