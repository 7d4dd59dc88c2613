"""The emulator as a `Driver`: memory of a stated size, queues, and kernels in a worker process."""

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from labkit.cuda.driver import DeviceProperties
from labkit.cuda.emulator.arena import Arena, wanted_bytes
from labkit.cuda.emulator.capture import Capture, Captures, checked
from labkit.cuda.emulator.events import Events
from labkit.cuda.emulator.forked import close_to_children
from labkit.cuda.emulator.launching import perform
from labkit.cuda.emulator.module import Function, Module
from labkit.cuda.emulator.queue import MARKS, WorkQueue
from labkit.cuda.emulator.transfers import Transfers
from labkit.cuda.emulator.worker import Worker, default_threads
from labkit.cuda.errors import InvalidValueError
from labkit.cuda.operation import Node, Operation

DEFAULT_TIMEOUT_S = 20.0


class EmulatorDriver:
    """CUDA on this machine's processors.

    capacity    bytes of device memory; default $LABKIT_EMULATOR_MEMORY (MiB), else 4 GiB
    seed        None runs queued work in order; an int picks any legal order, reproducibly
    timeout_s   a kernel that uses more CPU time is ended and reported
    queue       holds queued work, in place of a `WorkQueue` with that seed

    A process forked from one that has a driver cannot use it: each call says so, as CUDA does.

    Source   torch/cuda/__init__.py  _lazy_init
    Differs  events measure steps, not milliseconds: emulated time says nothing about a GPU.
    """

    name = "emulator"

    def __init__(
        self,
        capacity: int | None = None,
        *,
        seed: int | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        why: str = "asked for",
        threads: int | None = None,
        queue: WorkQueue | None = None,
    ) -> None:
        self.why = why
        self.timeout_s = timeout_s
        self._capacity = wanted_bytes() if capacity is None else capacity
        self._threads = threads or default_threads()
        self.queue = WorkQueue(seed) if queue is None else queue
        self._lock: contextlib.AbstractContextManager[Any] = threading.RLock()
        self._events = Events()
        self._handles = itertools.count(1)
        self._captures = Captures()
        self.arena = Arena(self._capacity)
        self.worker = Worker(*_place(self.arena), self._threads)
        self._open()
        close_to_children(self)

    def _open(self) -> None:
        self.transfers = Transfers(self.arena, self.worker)
        self.queue.add_stream(0, blocking=False)

    def __repr__(self) -> str:
        used, total = self.arena.used, self.arena.capacity
        queued = self.queue.pending
        return f"EmulatorDriver({used} of {total} bytes used, {queued} pieces of work queued)"

    def reset(self) -> None:
        """The device is as new: no memory, streams, events or queued work; addresses are void.

        Source   CUDA Runtime API  cudaDeviceReset
        """
        with self._lock:
            self.queue.drop_all()
            self.arena.close()
            self.arena = Arena(self._capacity)
            self.worker.move(*_place(self.arena))
            self._events.clear()
            self._captures.clear()
            self._open()

    def properties(self) -> DeviceProperties:
        """What the emulated device claims to be: the warp and limits of every recent NVIDIA GPU."""
        name = "labkit emulator (this machine's processor, no GPU)"
        return DeviceProperties(name, self.arena.capacity, self._threads, (8, 0))

    # Memory

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""
        return self.arena.capacity - self.arena.used, self.arena.capacity

    def malloc(self, size_bytes: int) -> int:
        """Address of that many bytes, uninitialised.

        Raises   OutOfMemoryError   they do not fit
                 CaptureError       a stream captures, and this thread is not `capture_relaxed`
        """
        with self._lock:
            self._captures.refuse_unsafe("allocating memory")
            return self.arena.malloc(size_bytes)

    def free(self, address: int) -> None:
        """The bytes are free once all queued work has run, as after `cudaFree`."""
        with self._lock:
            self.queue.run_until(None)
            self.arena.free(address)

    def address_reserve(self, size_bytes: int) -> int:
        """Address of room without memory."""
        with self._lock:
            return self.arena.reserve(size_bytes)

    def address_free(self, address: int, size_bytes: int) -> None:
        """Give reserved room back."""
        with self._lock:
            self.arena.unreserve(address, size_bytes)

    def memory_create(self, size_bytes: int) -> int:
        """Handle of memory without an address."""
        with self._lock:
            return self.arena.create(size_bytes)

    def memory_release(self, handle: int) -> None:
        """Give memory back that is not mapped."""
        with self._lock:
            self.arena.release(handle)

    def memory_map(self, address: int, size_bytes: int, handle: int) -> None:
        """The memory is reachable at `address`, from Python and from kernels."""
        with self._lock:
            self.arena.map(address, size_bytes, handle)
            self.worker.map(address, size_bytes, handle)

    def memory_unmap(self, address: int, size_bytes: int) -> None:
        """The room at `address` is empty again."""
        with self._lock:
            self.queue.run_until(None)
            self.arena.unmap(address, size_bytes)
            self.worker.unmap(address, size_bytes)

    # Copies

    def memcpy(self, dst: int, src: int, size_bytes: int) -> None:
        """The bytes have been copied, after everything queued on the default stream."""
        self.memcpy_async(dst, src, size_bytes, 0)
        self.stream_synchronize(0)

    def memcpy_async(
        self, dst: int, src: int, size_bytes: int, stream: int, keep: Any = None
    ) -> None:
        """The copy is queued; `keep` stays alive until it has run."""
        self.submit(stream, self.transfers.copying(dst, src, size_bytes, keep))

    def memset(self, address: int, byte: int, size_bytes: int) -> None:
        """Every byte has this value, after everything queued on the default stream."""
        self.memset_async(address, byte, size_bytes, 0)
        self.stream_synchronize(0)

    def memset_async(self, address: int, byte: int, size_bytes: int, stream: int) -> None:
        """The fill is queued."""
        self.submit(stream, self.transfers.filling(address, byte, size_bytes))

    def peek(self, address: int, size_bytes: int) -> bytes:
        """What the memory holds this moment, allocated or not: nothing is waited for, nothing runs.

        Raises   InvalidValueError   the range is not memory of this device
        """
        return self.transfers.peek(address, size_bytes)

    def is_device_address(self, address: int) -> bool:
        """True for memory of this device, allocated or not, and for module variables."""
        return self.transfers.is_device_address(address)

    # Streams and events

    def submit(self, stream: int, operation: Operation) -> None:
        """The operation is queued, or becomes a node of the graph the stream captures."""
        run = self._run(operation)
        with self._lock:
            self.queue.check_stream(stream)
            if not self._captures.take(stream, operation):
                self.queue.enqueue(stream, operation.kind, operation.name, run)

    def _run(self, operation: Operation) -> Callable[[], None]:
        return functools.partial(
            perform, operation, self.worker, self.transfers, timeout_s=self.timeout_s
        )

    def stream_create(self, *, non_blocking: bool = False, priority: int = 0) -> int:
        """A new stream; a non-blocking one is not ordered with the default stream."""
        with self._lock:
            stream = next(self._handles)
            self.queue.add_stream(stream, blocking=not non_blocking)
            return stream

    def stream_destroy(self, stream: int) -> None:
        """The stream is gone; what it was given to do is still done."""
        with self._lock:
            self.queue.check_stream(stream)
            if stream == 0:
                raise InvalidValueError("the default stream cannot be destroyed")
            self.queue.forget_stream(stream)

    def stream_query(self, stream: int) -> bool:
        """True when nothing is left to do; asking lets the device do one thing more."""
        with self._lock:
            self.queue.check_stream(stream)
            idle = self.queue.last(stream) is None
            if not idle:
                self.queue.step()
            return idle

    def stream_synchronize(self, stream: int) -> None:
        """Everything queued on the stream so far has run."""
        with self._lock:
            self.queue.check_stream(stream)
            self._captures.refuse("waiting for a stream")
            last = self.queue.last(stream)
            if last is not None:
                self.queue.run_until(last)

    def synchronize(self) -> None:
        """Everything queued on the device has run."""
        with self._lock:
            self._captures.refuse("waiting for the device")
            self.queue.run_until(None)

    def stream_wait_event(self, stream: int, event: int) -> None:
        """What is queued on the stream from now on runs after the event; the host does not wait."""
        with self._lock:
            self.queue.check_stream(stream)
            self._events.check(event)
            if self._captures.wait(stream, event):
                return
            work = self._events[event]
            if work is not None:
                self.queue.enqueue(stream, "wait", f"wait for event {event}", None, [work])

    def launch_host_function(self, stream: int, function: Callable[[], None]) -> None:
        """The function is called when the stream comes to it."""
        self.submit(stream, Operation("host", "host function", call=function))

    def event_create(self) -> int:
        """A new event; until it is recorded it counts as complete."""
        with self._lock:
            event = next(self._handles)
            self._events[event] = None
            return event

    def event_destroy(self, event: int) -> None:
        """The event is gone."""
        with self._lock:
            self._events.remove(event)
            self._captures.forget(event)

    def event_record(self, event: int, stream: int) -> None:
        """The event completes once everything now queued on the stream has run."""
        with self._lock:
            self._events.check(event)
            self.queue.check_stream(stream)
            if self._captures.record(event, stream):
                return
            self._events[event] = self.queue.enqueue(
                stream, "record", f"record event {event}", None
            )

    def event_query(self, event: int) -> bool:
        """True when the event has completed; asking lets the device do one thing more."""
        with self._lock:
            complete = self._events.is_complete(event)
            if not complete:
                self.queue.step()
            return complete

    def event_synchronize(self, event: int) -> None:
        """The event has completed."""
        with self._lock:
            self._events.check(event)
            self._captures.refuse("waiting for an event")
            if (work := self._events[event]) is not None:
                self.queue.run_until(work)

    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Pieces of work the device did between the two events: steps, not milliseconds.

        Raises   CudaError   one of them was not recorded, or has not completed
        """
        with self._lock:
            return float(self._events.completed_as(end) - self._events.completed_as(start))

    def work_between(self, start: int, end: int) -> int:
        """Kernels, copies and fills queued between the records of two events, if still in the log.

        Other streams' earlier work, which may run at any moment between them, is none of it.

        Raises   CudaError   one of the events was not recorded
        """
        with self._lock:
            first, last = self._events.recorded_as(start).id, self._events.recorded_as(end).id
            queued = (work.id for work in self.queue.log if work.kind not in MARKS)
            return sum(first < number < last for number in queued)

    # Modules and launches

    def module_load(
        self, code: str, path: str, name_expressions: Sequence[str], options: Sequence[str]
    ) -> Module:
        """The compiled source.

        Raises   CompileError   the compiler refused it
        """
        with self._lock:
            return Module(self.worker, code, path, name_expressions, options)

    def module_function(self, module: Module, name: str) -> Function:
        """One of its kernels."""
        return module.function(name)

    def module_global(self, module: Module, name: str) -> tuple[int, int]:
        """(address, bytes) of a __device__ or __constant__ variable."""
        with self._lock:
            address, size = module.global_variable(name)
            self.transfers.variables[address] = size
            return address, size

    def function_set_dynamic_shared(self, function: Function, size_bytes: int) -> None:
        """Launches may ask for that many bytes: here they always may."""

    def launch(self, operation: Operation, stream: int) -> None:
        """The launch is queued; a failure is raised by whoever waits for it."""
        self.submit(stream, operation)

    # Graphs

    def stream_begin_capture(self, stream: int) -> None:
        """What is queued on the stream from now on becomes a graph instead of running."""
        with self._lock:
            self.queue.check_stream(stream)
            self._captures.begin(stream)

    def stream_end_capture(self, stream: int) -> list[Node]:
        """The captured nodes, each after the ones its stream and its events put before it.

        Raises   CaptureError   nothing was captured here, it was made void, or a stream that
                                joined it was not joined back
        """
        with self._lock:
            return self._captures.end(stream)

    def stream_is_capturing(self, stream: int) -> bool:
        """True while what the stream is given becomes a graph."""
        return self._captures.of(stream) is not None

    def capture_of(self, stream: int) -> Capture | None:
        """The graph in the making that the stream takes part in."""
        return self._captures.of(stream)

    def capture_relaxed(self) -> contextlib.AbstractContextManager[None]:
        """Inside, this thread may allocate although a stream captures."""
        return self._captures.relaxed()

    def graph_instantiate(self, nodes: Sequence[Node]) -> list[Node]:
        """What `graph_launch` takes; checked, and independent of the graph it came from.

        Raises   InvalidValueError   a node comes after itself or one that does not exist yet
        """
        return checked(nodes)

    def graph_launch(self, executable: Sequence[Node], stream: int) -> None:
        """Every node is queued; what follows on the stream follows all of them."""
        with self._lock:
            self.queue.check_stream(stream)
            self._captures.refuse("launching a graph")
            branches = [-next(self._handles) for _ in executable]
            work = [self._run(node.operation) for node in executable]
            self.queue.enqueue_graph(stream, branches, executable, work)


def _place(arena: Arena) -> tuple[int, int, int, int]:
    """Where the worker finds the device's memory."""
    return arena.fd, arena.base, arena.reserved, arena.capacity
