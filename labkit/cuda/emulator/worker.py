"""The worker process seen from Python: messages over a socket, deadlines, restarts."""

import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time
import weakref
from enum import IntEnum
from pathlib import Path
from typing import Any

from labkit.core import compile_cache, cpu_time
from labkit.cuda.emulator import build

_HEADER = struct.Struct("<II")
_MAP = struct.Struct("<QQQ")
_GRACE_S = 5.0  # of CPU time, for a hanging worker to say where
_ASKED = 20  # times it is asked
_STANDSTILL_S = 30.0  # of a worker that neither runs nor answers


class Command(IntEnum):
    """What the worker can be asked; the order is that of `runtime/wire.h`."""

    PING, LOAD, UNLOAD, LAUNCH, MAP, UNMAP, READ, WRITE, TRACE, TWIN, DEFINE = range(11)


class WorkerDied(Exception):
    """The worker is gone; `report` is what it could still say, as plain data."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        super().__init__(report["message"])


class WorkerRefused(Exception):
    """The worker is well and says why it did not do what was asked."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        super().__init__(body.decode(errors="replace"))


class Worker:
    """One worker process at a time, started on first use and again after it died.

    memory_fd   the shared memory, mapped in the worker at `base` as it is in this process
    """

    def __init__(self, memory_fd: int, base: int, reserved: int, arena: int, threads: int) -> None:
        self._memory_fd = memory_fd
        self._place = (base, reserved, arena)
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.RLock()
        self.generation = 0
        """How many workers there have been: a module loaded by an earlier one is gone."""
        self.mappings: dict[int, tuple[int, int]] = {}
        """Address -> (bytes, offset) of virtual memory, told again to a new worker."""
        self._finalizer = weakref.finalize(self, _end, [])

    def _start(self) -> socket.socket:
        """A worker runs, has answered once, and knows the mapped memory."""
        ours = compile_cache.loaded(build.worker_program, self._launch, (OSError, WorkerDied))
        for address, (size, offset) in self.mappings.items():
            self._exchange(Command.MAP, _MAP.pack(address, size, offset), 10.0)
        return ours

    def _launch(self, program: Path) -> socket.socket:
        ours, theirs = socket.socketpair()
        base, reserved, arena = self._place
        arguments = [theirs.fileno(), self._memory_fd, hex(base), reserved, arena, self._threads]
        with theirs:
            self._process = subprocess.Popen(
                [str(program), *map(str, arguments)],
                pass_fds=(theirs.fileno(), self._memory_fd),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for Python alone
            )
        self._socket = ours
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _end, [self._process, ours])
        try:
            self._exchange(Command.PING, b"", 60.0)
        except WorkerDied:
            self.stop()
            raise
        return ours

    @property
    def pid(self) -> int | None:
        """The running worker's process id."""
        return self._process.pid if self._process else None

    def map(self, address: int, size_bytes: int, handle: int) -> None:
        """The memory is reachable at the address, from the process that runs kernels as well."""
        self.mappings[address] = (size_bytes, handle)
        if self.pid is not None:
            self.request(Command.MAP, map_message(address, size_bytes, handle))

    def unmap(self, address: int, size_bytes: int) -> None:
        """Nothing is at the address any more."""
        del self.mappings[address]
        if self.pid is not None:
            self.request(Command.UNMAP, map_message(address, size_bytes))

    def request(self, command: Command, body: bytes = b"", timeout_s: float = 60.0) -> bytes:
        """The worker's answer.

        Raises   WorkerDied      it crashed, or did not answer in time and was ended
                 WorkerRefused   it answered that it could not
        """
        with self._lock:
            if self._socket is None:
                self._start()
            try:
                return self._exchange(command, body, timeout_s)
            except WorkerRefused:
                raise
            except BaseException:  # Ctrl-C or an alarm, too: half an answer is left in the socket
                self.stop()
                raise

    def _exchange(self, command: Command, body: bytes, timeout_s: float) -> bytes:
        assert self._socket is not None
        assert self._process is not None
        try:
            self._socket.sendall(_HEADER.pack(command, len(body)) + body)
        except OSError:
            raise WorkerDied(self._unexplained()) from None
        if not self._answers(timeout_s):
            self._ask_where(timeout_s)
        header = self._receive(_HEADER.size)
        if header is None:
            raise WorkerDied(self._unexplained())
        status, length = _HEADER.unpack(header)
        answer = self._receive(length)
        if answer is None:
            raise WorkerDied(self._unexplained())
        if status == 2:
            report = json.loads(answer)
            raise WorkerDied(
                report | _timed_out(timeout_s) if report["kind"] == "timeout" else report
            )
        if status == 1:
            raise WorkerRefused(answer)
        return answer

    def _ask_where(self, timeout_s: float) -> None:
        """A hanging worker has said where it hangs; between two blocks it is asked again.

        Raises   WorkerDied   it says nothing
        """
        assert self._process is not None
        until = time.monotonic() + 2 * _STANDSTILL_S  # it may stand still each time
        for _ in range(_ASKED):
            os.kill(self._process.pid, signal.SIGUSR1)
            if self._answers(_GRACE_S / _ASKED):
                return
            if time.monotonic() > until:
                break
        raise WorkerDied(_timed_out(timeout_s, ", and did not say where"))

    def _answers(self, timeout_s: float) -> bool:
        """Whether an answer comes within so many seconds of the worker's CPU time.

        A worker that no longer runs is given up after a while, too.
        """
        assert self._process is not None
        pid, stood = self._process.pid, 0.0
        began = used = cpu_time.of_process(pid)
        while (left := began + timeout_s - used) > 0 and stood < _STANDSTILL_S:
            patience = min(max(left, 0.05), 1.0)
            if self._readable(patience):
                return True
            before, used = used, cpu_time.of_process(pid)
            if used - before < 0.01 * patience:
                stood += patience
        return False

    def _readable(self, seconds: float) -> bool:
        """True once an answer, or the end of the worker, can be read; Ctrl-C gets through."""
        assert self._socket is not None
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def _receive(self, length: int) -> bytes | None:
        assert self._socket is not None
        pieces = []
        while length:
            try:
                piece = self._socket.recv(min(length, 1 << 20))
            except ConnectionError:
                return None
            if not piece:
                return None
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _unexplained(self) -> dict[str, Any]:
        assert self._process is not None
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            status = 0
        reason = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return {"kind": "died", "message": f"the emulator's process ended with {reason}"}

    def move(self, memory_fd: int, base: int, reserved: int, arena: int) -> None:
        """No worker runs any more; the next one has this memory. Modules stay modules of this."""
        with self._lock:
            self.stop()
            self._memory_fd, self._place = memory_fd, (base, reserved, arena)
            self.mappings.clear()

    def stop(self) -> None:
        """No worker runs any more; the next request starts one."""
        with self._lock:
            self._finalizer()
            self._finalizer = weakref.finalize(self, _end, [])
            self._process = self._socket = None
            self.generation += 1


def _timed_out(timeout_s: float, besides: str = "") -> dict[str, Any]:
    message = f"the kernel did not end within {timeout_s:g} s of running{besides}"
    return {"kind": "timeout", "message": message}


def _end(resources: list[Any]) -> None:
    for resource in resources:
        if isinstance(resource, socket.socket):
            resource.close()
        else:
            resource.kill()
            resource.wait()


def map_message(address: int, size: int, offset: int = 0) -> bytes:
    """The body of MAP, UNMAP, READ and WRITE."""
    return _MAP.pack(address, size, offset)


def default_threads() -> int:
    """OS threads to spread blocks over: $LABKIT_EMULATOR_THREADS, else this process's cores."""
    chosen = os.environ.get("LABKIT_EMULATOR_THREADS")
    return max(1, int(chosen)) if chosen else min(16, len(os.sched_getaffinity(0)))


def module_path_bytes(path: Path) -> bytes:
    """The body of LOAD."""
    return os.fsencode(path) + b"\0"
