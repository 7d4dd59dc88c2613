"""Asks PyTorch's own `DataPtr` and allocator registry what they do, in a few lines of C++."""

import ctypes
import functools
from typing import Any

from labkit.pipeline.probes.against_c10 import against_c10

SOURCE = """
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <type_traits>

using c10::DataPtr;
using c10::Device;
using c10::DeviceType;

static int released = 0, released_otherwise = 0;
static void release(void*) { ++released; }
static void release_otherwise(void*) { ++released_otherwise; }

extern "C" {
int is_copyable() { return std::is_copy_constructible_v<DataPtr>; }
int is_movable() { return std::is_move_constructible_v<DataPtr>; }
int size_of_std_function_context() { return sizeof(c10::InefficientStdFunctionContext); }

// a null pointer on cuda:3: its device type and index, and whether it counts as memory
void null_with_device(int* answers) {
  DataPtr pointer(nullptr, Device(DeviceType::CUDA, 3));
  answers[0] = static_cast<int>(pointer.device().type());
  answers[1] = pointer.device().index();
  answers[2] = static_cast<bool>(pointer);
}
int default_device_type() { return static_cast<int>(DataPtr().device().type()); }

// moved once, the deleter exchanged with a wrong and a right expectation, then dropped
void lifetime(int* answers) {
  released = released_otherwise = 0;
  int memory = 0;
  {
    DataPtr first(&memory, &memory, &release, Device(DeviceType::CPU));
    DataPtr pointer = std::move(first);
    answers[0] = released;
    answers[1] = pointer.compare_exchange_deleter(&release_otherwise, &release_otherwise);
    answers[2] = pointer.compare_exchange_deleter(&release, &release_otherwise);
  }
  answers[3] = released;
  answers[4] = released_otherwise;
}

// a std::function as deleter: is its context the memory itself, and how often does it run
void std_function(int* answers) {
  int memory = 0, calls = 0;
  {
    DataPtr plain(&memory, &memory, &release, Device(DeviceType::CPU));
    DataPtr wrapped = c10::InefficientStdFunctionContext::makeDataPtr(
        &memory, [&calls](void*) { ++calls; }, Device(DeviceType::CPU));
    answers[0] = plain.get_context() == plain.get();
    answers[1] = wrapped.get_context() == wrapped.get();
  }
  answers[2] = calls;
}

int cpu_is_registered() {
  return c10::GetAllocator(DeviceType::CPU) == c10::GetCPUAllocator();
}
int device_types() { return c10::COMPILE_TIME_MAX_DEVICE_TYPES; }
}
"""


def facts() -> dict[str, Any]:
    """What the installed library answers; names as in the C++ source.

    Raises   CompilerMissing   no C++ compiler to build the probe with
             RuntimeError      the headers do not compile with it
    """
    library = _library()
    null, life, function = (_answers(getattr(library, name), count) for name, count in (
        ("null_with_device", 3), ("lifetime", 5), ("std_function", 3)
    ))  # fmt: skip
    return {
        "copyable": bool(library.is_copyable()),
        "movable": bool(library.is_movable()),
        "null pointer is on device type": null[0],
        "null pointer has device index": null[1],
        "null pointer counts as memory": bool(null[2]),
        "default device type": int(library.default_device_type()),
        "releases at a move": life[0],
        "exchange with a wrong expectation": bool(life[1]),
        "exchange with the right expectation": bool(life[2]),
        "the old deleter ran": life[3],
        "the new deleter ran": life[4],
        "plain context is the memory": bool(function[0]),
        "std::function context is the memory": bool(function[1]),
        "std::function ran": function[2],
        "bytes of the std::function context": int(library.size_of_std_function_context()),
        "the registry's CPU allocator is the default one": bool(library.cpu_is_registered()),
        "device types": int(library.device_types()),
    }


def _answers(function: Any, count: int) -> list[int]:
    answers = (ctypes.c_int * count)()
    function(answers)
    return list(answers)


@functools.cache
def _library() -> ctypes.CDLL:
    return against_c10("allocator_probe", SOURCE)
