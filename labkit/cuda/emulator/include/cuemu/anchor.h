// Once in every module: where this OS thread's copy of the shared variables starts, and where the
// module's code is.
#pragma once
#include "abi.h"

extern "C" {
__attribute__((visibility("default"))) thread_local char cuemu_shared_anchor[128] __attribute__((aligned(128)));
__attribute__((visibility("default"))) CUEMU_SILENT void* cuemu_shared_base() {
    return cuemu_shared_anchor;
}
}
