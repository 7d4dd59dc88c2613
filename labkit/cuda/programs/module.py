"""A program's kernels and device variables in the worker, found by the symbols of its builds."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit.cuda import source as cuda_source
from labkit.cuda.emulator import lines
from labkit.cuda.emulator.module import Function, Module, refuse_large_static_shared
from labkit.cuda.emulator.worker import Command, Worker, WorkerRefused
from labkit.cuda.errors import CudaError, InvalidValueError
from labkit.cuda.programs.builds import Program
from labkit.cuda.programs.symbols import FUNCTION, OBJECT, symbols


class ProgramModule(Module):
    """The device's half of a program: one module of two builds, whose kernels show up at launches.

    host   the host's build: places in it are how the running program names things
    """

    def __init__(self, worker: Worker, program: Program, host: Path) -> None:
        self.program = program
        self.path = program.files[0].name
        self.code = program.files[0].text
        self.source = cuda_source.Source("", tuple(program.kernels))
        self._worker = worker
        self._built = {}
        self._loaded = {}
        self.host = host
        self._names = {
            one.offset: one.name for one in symbols(host) if one.kind in (OBJECT, FUNCTION)
        }
        self._kernels: dict[tuple[int, int], Function] = {}
        self._defined: dict[tuple[bool, int, tuple[int, int]], int] = {}

    def _build(self, trace: bool) -> Path:
        self._built[trace] = self.program.build("trace" if trace else "fast")
        return self._built[trace]

    def _load_message(self, path: Path) -> bytes:
        return super()._load_message(path) + b"p"

    def kernel(self, place: tuple[int, int], spoken: str = "") -> Function:
        """The kernel whose text and thunk lie there in the host's build.

        spoken   how the launch names it

        Raises   CudaError   the device's build has no such kernel
        """
        if place not in self._kernels:
            index, description = self._define(place, trace=False)
            function = self._function(index, {**description, "name": spoken or self._bare(place)})
            refuse_large_static_shared(self.path, [{**description, "name": function.name}])
            self._kernels[place] = replace(function, place=place)
        return self._kernels[place]

    def index_of(self, function: Function, *, trace: bool) -> int:
        """The kernel's number in the build that runs, told to a new worker again."""
        assert function.place is not None
        key = (trace, self._worker.generation, function.place)
        if key not in self._defined:
            self._defined[key] = self._define(function.place, trace=trace)[0]
        return self._defined[key]

    def _define(self, place: tuple[int, int], *, trace: bool) -> tuple[int, dict[str, Any]]:
        handle, _ = self.load(trace=trace)
        try:
            kernel, thunk = (self._names[offset] for offset in place)
            body = struct.pack("<Q", handle) + kernel.encode() + b"\0" + thunk.encode() + b"\0"
            answer = self._worker.request(Command.DEFINE, body)
        except (KeyError, WorkerRefused) as error:
            raise CudaError(
                f"{self.path}: what is launched is no kernel of this program ({error})",
                "cudaErrorInvalidDeviceFunction",
            ) from None
        return struct.unpack_from("<I", answer)[0], json.loads(answer[4:])

    def _bare(self, place: tuple[int, int]) -> str:
        """A kernel's own name, from the name that the linker knows it by."""
        mangled = self._names.get(place[0], "")
        found = [one.name for one in self.source.kernels if one.name in mangled]
        return max(found, key=len, default=mangled or "kernel")

    def variable(self, place: int) -> tuple[int, int]:
        """(address, bytes) of the device's variable whose namesake lies there in the host's build.

        Raises   InvalidValueError   there is none
        """
        name = self._names.get(place, "")
        for variable in self.load()[1]["globals"]:
            if variable["symbol"] == name:
                return variable["address"], variable["size"]
        raise InvalidValueError(
            "that is no __device__ or __constant__ variable", "cudaErrorInvalidSymbol"
        )

    def host_line(self, site: int) -> lines.Location:
        """The learner's line behind a place in the host's build."""
        return self._shown(lines.locate(self.host, [max(0, site - 1)])[0])

    def line_of(self, offsets: Any, *, trace: bool = False) -> list[lines.Location]:
        """The learner's file and line behind offsets into a device build."""
        return [self._shown(place) for place in super().line_of(offsets, trace=trace)]

    def _shown(self, place: lines.Location) -> lines.Location:
        return place.with_files(self.program.named) if place.file else place
