"""A real GPU as a `Driver`, through CuPy, which only the files named cupy import.

CuPy's runtime module covers memory, streams, events and captured graphs; what it leaves out
(virtual memory, parameter sizes, launches from packed bytes) is asked of the CUDA driver itself.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy
from cupy.cuda import runtime

from labkit.cuda.cupy.calls import Access, AllocationProperties, Location, device_properties, told
from labkit.cuda.cupy.graph import Captured, Executable, captured_from_nodes
from labkit.cuda.cupy.module import Function, Module
from labkit.cuda.driver import DeviceProperties
from labkit.cuda.errors import CudaError, InvalidValueError, KernelFailure, OutOfMemoryError
from labkit.cuda.operation import Operation

_MEMCPY_DEFAULT = 4  # the driver finds out which side is which
_NOT_READY = 600
_OUT_OF_MEMORY = 2
_NON_BLOCKING = 1
_CAPTURE_THREAD_LOCAL = 1
_CAPTURE_RELAXED = 2


def why_not() -> str:
    """Empty when CuPy finds a GPU it can use, else the reason."""
    try:
        return "" if runtime.getDeviceCount() > 0 else "CuPy finds no GPU"
    except runtime.CUDARuntimeError as error:
        return f"CuPy says {error}"


class CupyDriver:
    """The GPU that CuPy sees; every launch is checked before it is sent.

    blocking  wait after each launch, so an error is raised where it was caused
    """

    name = "cupy"

    def __init__(self, *, why: str = "asked for", blocking: bool = False) -> None:
        self.why = why
        self.blocking = blocking
        with told():
            runtime.free(0)  # makes the context
        self._libcuda = ctypes.CDLL("libcuda.so.1")
        self._capturing: set[int] = set()

    def __repr__(self) -> str:
        return f"CupyDriver({self.properties().name})"

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._libcuda, function)(*arguments)
        if status == _OUT_OF_MEMORY:
            free, total = self.memory_info()
            raise OutOfMemoryError(0, free, total)
        if status:
            name = ctypes.c_char_p()
            self._libcuda.cuGetErrorName(status, ctypes.byref(name))
            raise CudaError(f"{function} failed", (name.value or b"CUDA_ERROR").decode())

    def properties(self) -> DeviceProperties:
        """What the GPU is and allows."""
        return device_properties()

    # Memory

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""
        with told():
            free, total = runtime.memGetInfo()
        return free, total

    def malloc(self, size_bytes: int) -> int:
        """Address of that many bytes.

        Raises   OutOfMemoryError   they do not fit
        """
        if size_bytes < 0:
            raise InvalidValueError(f"cannot allocate {size_bytes} bytes")
        try:
            address: int = runtime.malloc(size_bytes)
        except runtime.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise CudaError(str(error)) from None
            raise OutOfMemoryError(size_bytes, *self.memory_info()) from None
        return address

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""
        with told():
            runtime.free(address)

    def serve_arrays(
        self, malloc: Callable[[int, int], int | None], give_back: Callable[[int], None]
    ) -> Callable[[], None]:
        """CuPy's arrays come from `malloc(size, stream)` from now on; call the result to end that.

        give_back  called with an address when its array dies

        `malloc` returns None where there is no room.

        Source   cupy/cuda/memory.pyx  PythonFunctionAllocator
        """

        def allocate(size: int, _device: int) -> int:
            address = malloc(size, cupy.cuda.get_current_stream().ptr)
            if address is None:
                free, total = self.memory_info()
                raise cupy.cuda.memory.OutOfMemoryError(size, total - free)
            return address

        def release(address: int, _device: int) -> None:
            give_back(address)

        before = cupy.cuda.get_allocator()
        cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(allocate, release).malloc)
        return lambda: cupy.cuda.set_allocator(before)

    def is_device_address(self, address: int) -> bool:
        """True for memory of the GPU."""
        try:
            kind: int = runtime.pointerGetAttributes(address).type
        except runtime.CUDARuntimeError:
            return False
        return kind in (2, 3)

    def _allocation(self) -> AllocationProperties:
        with told():
            return AllocationProperties(1, 0, Location(1, runtime.getDevice()))

    def address_reserve(self, size_bytes: int) -> int:
        """Address of room without memory."""
        address = ctypes.c_uint64()
        self._call(
            "cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size_bytes),
            ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_ulonglong(0),
        )  # fmt: skip
        return address.value

    def address_free(self, address: int, size_bytes: int) -> None:
        """Give reserved room back."""
        self._call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(size_bytes))

    def memory_create(self, size_bytes: int) -> int:
        """Handle of memory without an address."""
        handle, allocation = ctypes.c_ulonglong(), self._allocation()
        self._call(
            "cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size_bytes),
            ctypes.byref(allocation), ctypes.c_ulonglong(0),
        )  # fmt: skip
        return handle.value

    def memory_map(self, address: int, size_bytes: int, handle: int) -> None:
        """The memory is reachable at `address`, for reading and writing."""
        self._call(
            "cuMemMap", ctypes.c_uint64(address), ctypes.c_size_t(size_bytes), ctypes.c_size_t(0),
            ctypes.c_ulonglong(handle), ctypes.c_ulonglong(0),
        )  # fmt: skip
        access = Access(self._allocation().location, 3)
        self._call(
            "cuMemSetAccess", ctypes.c_uint64(address), ctypes.c_size_t(size_bytes),
            ctypes.byref(access), ctypes.c_size_t(1),
        )  # fmt: skip

    def memory_unmap(self, address: int, size_bytes: int) -> None:
        """The room at `address` is empty again."""
        self.synchronize()
        self._call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(size_bytes))

    def memory_release(self, handle: int) -> None:
        """Give memory back that is not mapped."""
        self._call("cuMemRelease", ctypes.c_ulonglong(handle))

    def export_dlpack(self, owner: Any, **options: Any) -> Any:
        """A DLPack capsule of memory on the GPU, which keeps its owner alive.

        owner  anything with a `__cuda_array_interface__`
        """
        return cupy.asarray(owner).__dlpack__(**options)

    def import_dlpack(self, source: Any) -> Any:
        """An array over the GPU memory that `source` shares by DLPack."""
        return cupy.from_dlpack(source)

    def memcpy(self, dst: int, src: int, size_bytes: int) -> None:
        """The bytes have been copied."""
        with told():
            runtime.memcpy(dst, src, size_bytes, _MEMCPY_DEFAULT)

    def memcpy_async(
        self, dst: int, src: int, size_bytes: int, stream: int, keep: Any = None
    ) -> None:
        """The copy is queued; the caller keeps host memory alive until it has run."""
        with told():
            runtime.memcpyAsync(dst, src, size_bytes, _MEMCPY_DEFAULT, stream)

    def memset(self, address: int, byte: int, size_bytes: int) -> None:
        """Every byte has this value."""
        with told():
            runtime.memset(address, byte, size_bytes)
        self.stream_synchronize(0)

    def memset_async(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        """The fill is queued."""
        with told():
            runtime.memsetAsync(address, byte, size_bytes, stream)

    # Streams and events

    def stream_create(self, *, non_blocking: bool = False, priority: int = 0) -> int:
        """A new stream."""
        flags = _NON_BLOCKING if non_blocking else 0
        stream = ctypes.c_void_p()
        self._call(
            "cuStreamCreateWithPriority", ctypes.byref(stream), ctypes.c_uint(flags),
            ctypes.c_int(priority),
        )  # fmt: skip
        return stream.value or 0

    def stream_destroy(self, stream: int) -> None:
        """The stream is gone once its work is done."""
        with told():
            runtime.streamDestroy(stream)

    def stream_query(self, stream: int) -> bool:
        """True when nothing is left to do."""
        with told():
            return bool(runtime.streamQuery(stream) == 0)

    def stream_synchronize(self, stream: int) -> None:
        """Everything queued on the stream so far has run."""
        with told():
            runtime.streamSynchronize(stream)

    def synchronize(self) -> None:
        """Everything queued on the device has run."""
        with told():
            runtime.deviceSynchronize()

    def stream_wait_event(self, stream: int, event: int) -> None:
        """What is queued on the stream from now on runs after the event."""
        with told():
            runtime.streamWaitEvent(stream, event)

    def launch_host_function(self, stream: int, function: Callable[[], None]) -> None:
        """The function is called when the stream comes to it; it must not use the device."""
        with told():
            runtime.launchHostFunc(stream, lambda _: function(), None)

    def event_create(self) -> int:
        """A new event that can measure time."""
        with told():
            event: int = runtime.eventCreate()
        return event

    def event_destroy(self, event: int) -> None:
        """The event is gone."""
        with told():
            runtime.eventDestroy(event)

    def event_record(self, event: int, stream: int) -> None:
        """The event completes once everything now queued on the stream has run."""
        with told():
            runtime.eventRecord(event, stream)

    def event_query(self, event: int) -> bool:
        """True when the event has completed."""
        with told():
            return bool(runtime.eventQuery(event) != _NOT_READY)

    def event_synchronize(self, event: int) -> None:
        """The event has completed."""
        with told():
            runtime.eventSynchronize(event)

    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two completed events."""
        with told():
            return float(runtime.eventElapsedTime(start, end))

    # Modules and launches

    def module_load(
        self, code: str, path: str, name_expressions: Sequence[str], options: Sequence[str]
    ) -> Module:
        """The compiled source.

        Raises   CompileError   NVRTC refused it
        """
        return Module(code, path, name_expressions, options)

    def module_function(self, module: Module, name: str) -> Function:
        """One of its kernels, with a signature as its source tells it."""
        return module.function(name, self._libcuda)

    def function_set_dynamic_shared(self, function: Function, size_bytes: int) -> None:
        """Let launches ask for that many bytes."""
        with told():
            function.raw.max_dynamic_shared_size_bytes = size_bytes

    def module_global(self, module: Module, name: str) -> tuple[int, int]:
        """(address, bytes) of a __device__ or __constant__ variable."""
        try:
            pointer = module.raw.get_global(name)
        except cupy.cuda.driver.CUDADriverError as error:
            raise InvalidValueError(f"{module.path} has no variable '{name}' ({error})") from None
        return pointer.ptr, pointer.mem.size

    def launch(self, operation: Operation, stream: int) -> None:
        """The launch is queued, and was accepted; order and time are the GPU's own.

        Raises   KernelFailure   with `blocking`, when the kernel failed
        """
        values = [ctypes.create_string_buffer(arg, len(arg)) for arg in operation.args]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        sizes = (*operation.grid, *operation.block, operation.shared_bytes)
        self._call(
            "cuLaunchKernel", ctypes.c_void_p(operation.function.pointer),
            *map(ctypes.c_uint, sizes), ctypes.c_void_p(stream or None), pointers, None,
        )  # fmt: skip
        if self.blocking and not self._capturing:
            try:
                self.stream_synchronize(stream)
            except CudaError as error:
                raise KernelFailure(
                    {
                        "kind": "fault", "message": str(error), "kernel": operation.name,
                        "block": [0, 0, 0], "thread": [0, 0, 0], "file": "", "line": 0,
                    }
                ) from None  # fmt: skip

    # Graphs

    def stream_begin_capture(self, stream: int) -> None:
        """What is queued on the stream from now on becomes a graph instead of running."""
        with told():
            runtime.streamBeginCapture(stream, _CAPTURE_THREAD_LOCAL)
        self._capturing.add(stream)

    def stream_end_capture(self, stream: int) -> list[Any]:
        """The captured graph, as one item: its nodes are the driver's."""
        self._capturing.discard(stream)
        with told():
            return [Captured(runtime.streamEndCapture(stream))]

    def stream_is_capturing(self, stream: int) -> bool:
        """True while what the stream is given becomes a graph."""
        with told():
            return bool(runtime.streamIsCapturing(stream))

    @contextlib.contextmanager
    def capture_relaxed(self) -> Iterator[None]:
        """Inside, this thread may allocate although a stream captures."""
        mode = ctypes.c_int(_CAPTURE_RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def graph_instantiate(self, nodes: Sequence[Any]) -> Executable:
        """What `graph_launch` takes. An explicit graph is captured, one stream per node."""
        if len(nodes) == 1 and isinstance(nodes[0], Captured):
            with told():
                return Executable(runtime.graphInstantiate(nodes[0].handle), nodes)
        return captured_from_nodes(self, nodes)

    def graph_launch(self, executable: Executable, stream: int) -> None:
        """Every node is queued."""
        with told():
            runtime.graphLaunch(executable.handle, stream)
