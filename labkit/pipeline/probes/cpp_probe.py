"""Asks the installed C++ objects themselves: how large they are, and how often they are held.

A few lines of C++ are compiled against the headers that ship with PyTorch, once, and kept in the
cache; a tensor's `_cdata` is the address of its TensorImpl, a storage's that of its StorageImpl.
"""

import ctypes
import functools
from typing import Any

import torch

from labkit.pipeline.probes.against_c10 import against_c10

SOURCE = """
#include <c10/core/TensorImpl.h>

#include <type_traits>

using c10::intrusive_ptr_target;

static intrusive_ptr_target* target(void* address) {
  return static_cast<intrusive_ptr_target*>(address);
}

static int64_t deleted = 0;
static void note_deleted(void*) { ++deleted; }

extern "C" {
size_t size_of_tensor_impl() { return sizeof(c10::TensorImpl); }
size_t size_of_storage_impl() { return sizeof(c10::StorageImpl); }
size_t size_of_intrusive_ptr_target() { return sizeof(intrusive_ptr_target); }
size_t size_of_data_ptr() { return sizeof(c10::DataPtr); }
size_t use_count(void* address) { return c10::raw::intrusive_ptr::use_count(target(address)); }
void* allocator_of(void* address) {
  return static_cast<c10::StorageImpl*>(address)->allocator();
}
void* storage_of(void* address) {
  return static_cast<c10::TensorImpl*>(address)->unsafe_storage().unsafeGetStorageImpl();
}
bool storage_is_final() { return std::is_final_v<c10::StorageImpl>; }

// The count, and the deleter's calls: made, copied, copy gone, released, reclaimed; then all gone.
void hand_over(int64_t* counts, int64_t* calls) {
  static char bytes[10];
  deleted = 0;
  auto noted = [&](size_t count) { *counts++ = count; *calls++ = deleted; };
  auto owner = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), sizeof(bytes),
      c10::DataPtr(bytes, bytes, note_deleted, c10::Device(c10::kCPU)), nullptr, false);
  noted(owner.use_count());
  auto copy = owner;
  noted(owner.use_count());
  copy.reset();
  noted(owner.use_count());
  c10::StorageImpl* raw = owner.release();
  noted(c10::raw::intrusive_ptr::use_count(raw));
  auto again = c10::intrusive_ptr<c10::StorageImpl>::reclaim(raw);
  noted(again.use_count());
  again.reset();
  noted(0);
}
}
"""
HANDED_OVER = ("made", "copied", "copy gone", "released", "reclaimed", "gone")
SIZES = ("tensor_impl", "storage_impl", "intrusive_ptr_target", "data_ptr")


def sizes() -> dict[str, int]:
    """Bytes of each C++ object, as this machine's PyTorch lays it out.

    Raises   CompilerMissing   no C++ compiler to build the probe with
             RuntimeError      the headers do not compile with it
    """
    library = _library()
    return {name: int(getattr(library, f"size_of_{name}")()) for name in SIZES}


def use_count(held: Any) -> int:
    """How many strong references a tensor's TensorImpl, or an UntypedStorage's StorageImpl, has.

    The Python object that asks holds one of them.
    """
    return int(_library().use_count(held._cdata))


def storage_use_count(tensor: torch.Tensor) -> int:
    """How many tensors (and storage handles) hold the bytes of this tensor; asking adds none."""
    library = _library()
    return int(library.use_count(library.storage_of(tensor._cdata)))


def has_allocator(tensor: torch.Tensor) -> bool:
    """Whether the storage knows an allocator it could grow with; borrowed memory has none."""
    library = _library()
    return bool(library.allocator_of(library.storage_of(tensor._cdata)))


def hand_over() -> dict[str, tuple[int, int]]:
    """What was done to a `StorageImpl` -> (its strong count after it, calls of its deleter)."""
    counts, calls = ((ctypes.c_int64 * len(HANDED_OVER))() for _ in range(2))
    _library().hand_over(counts, calls)
    return dict(zip(HANDED_OVER, zip(counts, calls, strict=True), strict=True))


def storage_is_final() -> bool:
    """Whether C++ allows no class to inherit from `StorageImpl`."""
    return bool(_library().storage_is_final())


@functools.cache
def _library() -> ctypes.CDLL:
    library = against_c10("cpp_probe", SOURCE)
    for name in SIZES:
        getattr(library, f"size_of_{name}").restype = ctypes.c_size_t
    library.use_count.restype = ctypes.c_size_t
    library.storage_is_final.restype = ctypes.c_bool
    for name in ("use_count", "allocator_of", "storage_of"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    library.allocator_of.restype = library.storage_of.restype = ctypes.c_void_p
    return library
