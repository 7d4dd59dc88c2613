"""Compiled CUDA source in the worker: handles that survive the worker's end."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.core import compile_cache
from labkit.cuda import source as cuda_source
from labkit.cuda.driver import DeviceProperties
from labkit.cuda.emulator import build, lines
from labkit.cuda.emulator.worker import Command, Worker, WorkerRefused, module_path_bytes
from labkit.cuda.errors import CompileError, CudaError, InvalidValueError
from labkit.cuda.signature import ParamKind, Signature, SignatureParam


@dataclass(frozen=True)
class Function:
    """One kernel of a module."""

    module: "Module"
    index: int
    name: str
    signature: Signature
    static_shared_bytes: int
    max_threads: int
    place: tuple[int, int] | None = None
    """Of a whole program: where the host's build has it and its thunk."""

    def __repr__(self) -> str:
        return f"Function({self.name!r})"


class Module:
    """A .cu file compiled for the host, loaded in whichever worker runs."""

    def __init__(
        self,
        worker: Worker,
        code: str,
        path: str,
        name_expressions: Sequence[str],
        options: Sequence[str],
    ) -> None:
        self.code, self.path = code, path
        self.source = cuda_source.parse(code)
        self._worker = worker
        self._inputs = (code, path, tuple(name_expressions), tuple(options))
        self._built: dict[bool, Path] = {}
        self._loaded: dict[bool, tuple[int, int, dict[str, Any]]] = {}
        self.description = self.load()[1]
        self.functions = {
            kernel["name"]: self._function(index, kernel)
            for index, kernel in enumerate(self.description["kernels"])
        }

    def load(self, *, trace: bool = False) -> tuple[int, dict[str, Any]]:
        """(handle, description) of the fast or the trace build in the running worker."""
        generation, handle, description = self._loaded.get(trace, (-1, 0, {}))
        if generation == self._worker.generation:
            return handle, description
        try:
            answer = compile_cache.loaded(
                lambda: self._build(trace),
                lambda path: self._worker.request(Command.LOAD, self._load_message(path)),
                WorkerRefused,
            )
        except WorkerRefused as refusal:
            raise CudaError(f"{self.path} does not load: {refusal}") from None
        handle = struct.unpack_from("<Q", answer)[0]
        description = json.loads(answer[8:])
        refuse_large_static_shared(self.path, description["kernels"])
        self._loaded[trace] = (self._worker.generation, handle, description)
        return handle, description

    def _load_message(self, path: Path) -> bytes:
        return module_path_bytes(path)

    def index_of(self, function: Function, *, trace: bool) -> int:
        """The kernel's number in the build that runs."""
        return function.index

    def carry_variables(self, *, into_trace: bool) -> None:
        """One build's `__device__` and `__constant__` variables hold what the other's hold."""
        builds = [self.load(trace=trace)[0] for trace in (not into_trace, into_trace)]
        self._worker.request(Command.TWIN, struct.pack("<2Q", *builds))

    def _build(self, trace: bool) -> Path:
        """The file to load, or to read lines from; asked for anew, as a cache may be emptied."""
        self._built[trace] = build.compile_cuda(*self._inputs, trace=trace)
        return self._built[trace]

    def line_of(self, offsets: Sequence[int], *, trace: bool = False) -> list[lines.Location]:
        """The learner's file and line behind offsets into the code."""
        built = self._built[trace]
        found = lines.locate(built if built.exists() else self._build(trace), offsets)
        # The compiler puts its own directory in front of a path that was given without one.
        return [
            place.with_files(lambda file: self.path if file.endswith("/" + self.path) else file)
            for place in found
        ]

    def _function(self, index: int, kernel: dict[str, Any]) -> Function:
        text = self.source.kernel(kernel["name"])
        written = text.parameters if text is not None else ()
        params = []
        for position, (size, kind, pointee_kind, const, pointee_size) in enumerate(
            kernel["params"]
        ):
            named = position < len(written) and len(written) == len(kernel["params"])
            params.append(
                SignatureParam(
                    name=written[position].name if named else f"#{position}",
                    type=written[position].type if named else "",
                    size=size,
                    kind=ParamKind(kind),
                    pointee_kind=ParamKind(pointee_kind),
                    pointee_size=pointee_size,
                    is_const=bool(const),
                )
            )
        limit = text.max_threads if text is not None and text.max_threads else 1024
        return Function(
            self, index, kernel["name"], Signature(tuple(params)), kernel["static_shared"], limit
        )

    def function(self, name: str) -> Function:
        """The kernel of that name.

        Raises   InvalidValueError   there is none; says which there are, and why one is hidden
        """
        if name in self.functions:
            return self.functions[name]
        text = self.source.kernel(name)
        hint = ""
        if text is not None and not text.is_extern_c:
            what = "a template" if text.is_template else 'not extern "C"'
            hint = f"; '{text.name}' is {what}: list it in name_expressions"
        raise InvalidValueError(
            f"{self.path} has no kernel '{name}', only {sorted(self.functions)}{hint}",
            "cudaErrorSymbolNotFound",
        )

    def global_variable(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a __device__ or __constant__ variable, in the worker's memory."""
        variables = self.load()[1]["globals"]
        for variable in variables:
            if variable["name"] == name:
                return variable["address"], variable["size"]
        raise InvalidValueError(
            f"{self.path} has no variable '{name}', only {sorted(v['name'] for v in variables)}",
            "cudaErrorSymbolNotFound",
        )


def refuse_large_static_shared(path: str, kernels: Sequence[dict[str, Any]]) -> None:
    """Refuse what ptxas refuses.

    Raises   CompileError   a kernel's static __shared__ arrays need more than 48 KiB
    """
    most = DeviceProperties.shared_memory_per_block
    for kernel in kernels:
        if kernel["static_shared"] > most:
            raise CompileError(
                f"{path}: kernel '{kernel['name']}' has {kernel['static_shared']} bytes of static "
                f"shared memory, at most {most} are allowed; more is to be had as dynamic shared "
                "memory: extern __shared__, and shared_mem= at the launch"
            )
