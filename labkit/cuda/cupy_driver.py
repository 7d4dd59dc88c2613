"""A real GPU as a `Driver`, through CuPy. The only file that imports CuPy.

CuPy's runtime module covers memory, streams, events and captured graphs; what it leaves out
(virtual memory, parameter sizes, launches from packed bytes) is asked of the CUDA driver itself.
"""

import contextlib
import ctypes
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy
from cupy.cuda import runtime

from labkit.cuda import source as cuda_source
from labkit.cuda.driver import DeviceProperties, Dim3
from labkit.cuda.emulator.build import KERNELS
from labkit.cuda.errors import (
    CompileError,
    CudaError,
    InvalidValueError,
    KernelFailure,
    OutOfMemoryError,
)
from labkit.cuda.inspect.nvrtc import compile_source
from labkit.cuda.operation import Node
from labkit.cuda.signature import Signature
from labkit.cuda.signature_text import signature_from_text

_MEMCPY_DEFAULT = 4  # the driver finds out which side is which
_NOT_READY = 600
_OUT_OF_MEMORY = 2
_NON_BLOCKING = 1
_CAPTURE_THREAD_LOCAL = 1


def why_not() -> str:
    """Empty when CuPy finds a GPU it can use, else the reason."""
    try:
        return "" if runtime.getDeviceCount() > 0 else "CuPy finds no GPU"
    except runtime.CUDARuntimeError as error:
        return f"CuPy says {error}"


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """CuPy's errors leave as labkit's, under the same CUDA names."""
    try:
        yield
    except runtime.CUDARuntimeError as error:
        code, _, text = str(error).partition(": ")
        raise CudaError(text, code) from None


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of one device."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


@dataclass(frozen=True)
class Function:
    """One kernel on the GPU."""

    raw: Any
    pointer: int
    name: str
    signature: Signature
    static_shared_bytes: int
    max_threads: int
    num_regs: int
    local_bytes: int


class Module:
    """CUDA source compiled by NVRTC."""

    def __init__(self, code: str, path: str, names: Sequence[str], options: Sequence[str]) -> None:
        self.code, self.path = code, path
        self.source = cuda_source.parse(code)
        arch = [o.partition("=")[2] for o in options if o.startswith("--gpu-architecture=")]
        if arch:  # CuPy compiles for the card's plain architecture, which lacks what "sm_90a" has
            self.raw = _raw_module_for(arch[-1], code, path, names, options)
            return
        folder = Path(path).parent if Path(path).exists() else Path()
        given = ["-std=c++17", f"-I{folder.resolve()}", f"-I{KERNELS}", "-lineinfo", *options]
        standard = [o for o in options if o.startswith(("-std", "--std"))]
        self.raw = cupy.RawModule(
            code=code,
            options=tuple(given[1:] if standard else given),
            name_expressions=tuple(names) or None,
        )
        try:
            self.raw.compile()
        except cupy.cuda.compiler.CompileException as error:
            raise CompileError(f"{path} does not compile:\n{error}") from None


def _raw_module_for(
    arch: str, code: str, path: str, names: Sequence[str], options: Sequence[str]
) -> Any:
    """The source compiled by NVRTC itself, and loaded as machine code."""
    rest = [o for o in options if not o.startswith("--gpu-architecture=")]
    compiled = compile_source(code, arch, names, path=path, options=rest)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.cubin)
        file.flush()
        raw = cupy.RawModule(path=file.name)
        raw.get_function(next(iter(compiled.entries.values())))  # loads the file while it is there
    return raw


class CupyDriver:
    """The GPU that CuPy sees; every launch is checked before it is sent.

    blocking  wait after each launch, so an error is raised where it was caused
    """

    name = "cupy"
    elapsed_unit = "ms"

    def __init__(self, *, why: str = "asked for", blocking: bool = False) -> None:
        self.why = why
        self.blocking = blocking
        with _told():
            runtime.free(0)  # makes the context
        self._libcuda = ctypes.CDLL("libcuda.so.1")
        self._reserved: dict[int, int] = {}
        self._kept: dict[int, list[Any]] = {}
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
        with _told():
            told = runtime.getDeviceProperties(runtime.getDevice())
        x, y, z = told["maxThreadsDim"]
        gx, gy, gz = told["maxGridSize"]
        return DeviceProperties(
            name=told["name"].decode(),
            total_memory=told["totalGlobalMem"],
            multi_processor_count=told["multiProcessorCount"],
            compute_capability=(told["major"], told["minor"]),
            warp_size=told["warpSize"],
            max_threads_per_block=told["maxThreadsPerBlock"],
            max_block_dim=(x, y, z),
            max_grid_dim=(gx, gy, gz),
            shared_memory_per_block=told["sharedMemPerBlock"],
            shared_memory_per_block_optin=told["sharedMemPerBlockOptin"],
            l2_cache_bytes=told["l2CacheSize"],
        )

    # Memory

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""
        with _told():
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
        with _told():
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

    def _allocation(self) -> _AllocationProperties:
        with _told():
            return _AllocationProperties(1, 0, _Location(1, runtime.getDevice()))

    def allocation_granularity(self) -> int:
        """Bytes that sizes of virtual memory are multiples of."""
        size = ctypes.c_size_t()
        allocation = self._allocation()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(allocation), 0)
        return size.value

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
        access = _Access(self._allocation().location, 3)
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
        with _told():
            runtime.memcpy(dst, src, size_bytes, _MEMCPY_DEFAULT)

    def memcpy_async(
        self, dst: int, src: int, size_bytes: int, stream: int, keep: Any = None
    ) -> None:
        """The copy is queued; the caller keeps host memory alive until it has run."""
        with _told():
            runtime.memcpyAsync(dst, src, size_bytes, _MEMCPY_DEFAULT, stream)

    def memset(self, address: int, byte: int, size_bytes: int) -> None:
        """Every byte has this value."""
        with _told():
            runtime.memset(address, byte, size_bytes)
        self.stream_synchronize(0)

    def memset_async(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        """The fill is queued."""
        with _told():
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
        with _told():
            runtime.streamDestroy(stream)

    def stream_query(self, stream: int) -> bool:
        """True when nothing is left to do."""
        with _told():
            return bool(runtime.streamQuery(stream) == 0)

    def stream_synchronize(self, stream: int) -> None:
        """Everything queued on the stream so far has run."""
        with _told():
            runtime.streamSynchronize(stream)
        self._kept.pop(stream, None)

    def synchronize(self) -> None:
        """Everything queued on the device has run."""
        with _told():
            runtime.deviceSynchronize()
        self._kept.clear()

    def stream_wait_event(self, stream: int, event: int) -> None:
        """What is queued on the stream from now on runs after the event."""
        with _told():
            runtime.streamWaitEvent(stream, event)

    def launch_host_function(self, stream: int, function: Callable[[], None]) -> None:
        """The function is called when the stream comes to it; it must not use the device."""
        with _told():
            runtime.launchHostFunc(stream, lambda _: function(), None)

    def event_create(self) -> int:
        """A new event that can measure time."""
        with _told():
            event: int = runtime.eventCreate()
        return event

    def event_destroy(self, event: int) -> None:
        """The event is gone."""
        with _told():
            runtime.eventDestroy(event)

    def event_record(self, event: int, stream: int) -> None:
        """The event completes once everything now queued on the stream has run."""
        with _told():
            runtime.eventRecord(event, stream)

    def event_query(self, event: int) -> bool:
        """True when the event has completed."""
        with _told():
            return bool(runtime.eventQuery(event) != _NOT_READY)

    def event_synchronize(self, event: int) -> None:
        """The event has completed."""
        with _told():
            runtime.eventSynchronize(event)

    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two completed events."""
        with _told():
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
        text = module.source.kernel(name)
        if text is None:
            names = [kernel.name for kernel in module.source.kernels]
            raise InvalidValueError(f"{module.path} has no kernel '{name}', only {names}")
        with _told():
            try:
                raw = module.raw.get_function(name)
            except cupy.cuda.driver.CUDADriverError as error:
                hint = f"{module.path}: '{name}' must be extern \"C\" or in name_expressions"
                raise InvalidValueError(f"{hint} ({error})", "cudaErrorSymbolNotFound") from None
        pointer = raw.kernel.ptr
        attributes = raw.attributes
        return Function(
            raw, pointer, name, signature_from_text(text, name, self._parameter_sizes(pointer)),
            attributes["shared_size_bytes"], attributes["max_threads_per_block"],
            attributes["num_regs"], attributes["local_size_bytes"],
        )  # fmt: skip

    def _parameter_sizes(self, pointer: int) -> list[int]:
        sizes: list[int] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while not self._libcuda.cuFuncGetParamInfo(
            ctypes.c_void_p(pointer), ctypes.c_size_t(len(sizes)), ctypes.byref(offset),
            ctypes.byref(size),
        ):  # fmt: skip
            sizes.append(size.value)
        return sizes

    def function_set_dynamic_shared(self, function: Function, size_bytes: int) -> None:
        """Let launches ask for that many bytes."""
        with _told():
            function.raw.max_dynamic_shared_size_bytes = size_bytes

    def module_global(self, module: Module, name: str) -> tuple[int, int]:
        """(address, bytes) of a __device__ or __constant__ variable."""
        try:
            pointer = module.raw.get_global(name)
        except cupy.cuda.driver.CUDADriverError as error:
            raise InvalidValueError(f"{module.path} has no variable '{name}' ({error})") from None
        return pointer.ptr, pointer.mem.size

    def launch(
        self,
        function: Function,
        grid: Dim3,
        block: Dim3,
        args: Sequence[bytes],
        shared_bytes: int,
        stream: int,
        **options: Any,
    ) -> None:
        """The launch is queued, and was accepted.

        Raises   KernelFailure   with `blocking`, when the kernel failed
        """
        values = [ctypes.create_string_buffer(arg, len(arg)) for arg in args]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        self._call(
            "cuLaunchKernel", ctypes.c_void_p(function.pointer),
            *map(ctypes.c_uint, (*grid, *block, shared_bytes)), ctypes.c_void_p(stream or None),
            pointers, None,
        )  # fmt: skip
        if self.blocking and not self._capturing:
            try:
                self.stream_synchronize(stream)
            except CudaError as error:
                raise KernelFailure(
                    {
                        "kind": "fault", "message": str(error), "kernel": function.name,
                        "block": [0, 0, 0], "thread": [0, 0, 0], "file": "", "line": 0,
                    }
                ) from None  # fmt: skip

    # Graphs

    def stream_begin_capture(self, stream: int) -> None:
        """What is queued on the stream from now on becomes a graph instead of running."""
        with _told():
            runtime.streamBeginCapture(stream, _CAPTURE_THREAD_LOCAL)
        self._capturing.add(stream)

    def stream_is_capturing(self, stream: int) -> bool:
        """True between begin and end of a capture."""
        with _told():
            return bool(runtime.streamIsCapturing(stream))

    def stream_end_capture(self, stream: int) -> list[Any]:
        """The captured graph, as one item: its nodes are the driver's."""
        self._capturing.discard(stream)
        with _told():
            return [_Captured(runtime.streamEndCapture(stream))]

    def graph_instantiate(self, nodes: Sequence[Any]) -> "_Executable":
        """What `graph_launch` takes. An explicit graph is captured, one stream per node."""
        if len(nodes) == 1 and isinstance(nodes[0], _Captured):
            with _told():
                return _Executable(runtime.graphInstantiate(nodes[0].handle), nodes)
        return self._from_nodes(nodes)

    def _from_nodes(self, nodes: Sequence[Node]) -> "_Executable":
        origin = self.stream_create(non_blocking=True)
        streams = [self.stream_create(non_blocking=True) for _ in nodes]
        events = [self.event_create() for _ in range(len(nodes) + 1)]
        self.stream_begin_capture(origin)
        self.event_record(events[-1], origin)
        for node, stream, event in zip(nodes, streams, events[:-1], strict=True):
            for earlier in node.after:
                self.stream_wait_event(stream, events[earlier])
            if not node.after:
                self.stream_wait_event(stream, events[-1])
            self._queue(node, stream)
            self.event_record(event, stream)
        for event in events[:-1]:
            self.stream_wait_event(origin, event)
        (captured,) = self.stream_end_capture(origin)
        executable = self.graph_instantiate([captured])
        executable.keep = nodes
        for stream in (*streams, origin):
            self.stream_destroy(stream)
        for event in events:
            self.event_destroy(event)
        return executable

    def _queue(self, node: Node, stream: int) -> None:
        one = node.operation
        if one.kind == "kernel":
            self.launch(one.function, one.grid, one.block, one.args, one.shared_bytes, stream)
        elif one.kind == "memcpy":
            self.memcpy_async(one.dst, one.src, one.size_bytes, stream)
        elif one.kind == "memset":
            self.memset_async(one.dst, one.byte, one.size_bytes, stream)
        elif one.call is not None:
            self.launch_host_function(stream, one.call)

    def graph_launch(self, executable: "_Executable", stream: int) -> None:
        """Every node is queued."""
        with _told():
            runtime.graphLaunch(executable.handle, stream)


class _Captured:
    """A graph as the driver captured it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.after: tuple[int, ...] = ()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            runtime.graphDestroy(self.handle)


class _Executable:
    """An instantiated graph, and what it must keep alive."""

    def __init__(self, handle: int, keep: Sequence[Any]) -> None:
        self.handle, self.keep = handle, keep

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            runtime.graphExecDestroy(self.handle)
