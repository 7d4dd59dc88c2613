// Copies to shared memory that a GPU makes in the background: asked for here, made at their wait.
#pragma once

namespace cuemu {
// A part of `bytes` for each of `count` threads, in pieces as wide as size and places allow.
CUEMU_INLINE void copy_share(unsigned rank, unsigned count, void* to, const void* from, size_t bytes) {
    const size_t together = bytes | (size_t)to | (size_t)from | 16, width = together & -together;
    for (size_t at = rank * width; at < bytes; at += count * width) {
        cuemu_copy((char*)to + at, (const char*)from + at, (uint32_t)width, 0);
    }
}
}  // namespace cuemu

CUEMU_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t size, size_t zeros = 0) {
    cuemu_copy(to, from, (uint32_t)size, (uint32_t)zeros);
}
CUEMU_INLINE void __pipeline_commit() { cuemu_copy_commit(); }
CUEMU_INLINE void __pipeline_wait_prior(size_t groups) { cuemu_block_copy_wait((uint32_t)groups, 0); }
