"""An extension in this process: its host code calls the runtime API, and labkit answers."""

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError
from labkit.cuda.programs import errors
from labkit.cuda.programs.calls_launch import LaunchCalls, Reported
from labkit.cuda.programs.calls_memory import MemoryCalls
from labkit.cuda.programs.calls_streams import StreamCalls
from labkit.cuda.programs.module import ProgramModule
from labkit.cuda.programs.result import ProgramFinding, ProgramResult
from labkit.cuda.programs.session import Call, Session, calls_of
from labkit.cuda.programs.wire import Answer, Question
from labkit.torch_device.extension.build import ExtensionProgram, program
from labkit.torch_device.start import kernels

_ANSWER = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64),
    ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64),
)  # fmt: skip
NUMBERS, VALUES = 9, 4
_loaded: dict[Path, "Extension"] = {}
"""PyTorch keeps what a library has registered: none is ever unloaded, or loaded again."""


def load(*sources: str | Path, options: Sequence[str] = ()) -> "Extension":
    """The files are compiled with the host's compiler, and their operators are PyTorch's.

    sources   .cu and .cpp files; `TORCH_LIBRARY_IMPL(…, CUDA, …)` in them is the device's
    options   -D, -U, -I and -std= as nvcc takes them

    Raises   RuntimeError      the device was not started; PyTorch refuses the operators; a GPU
                               serves, which wants torch.utils.cpp_extension and nvcc
             CompilerMissing   no C++ compiler is installed
             CompileError      it refuses; its words are passed on
    Source   torch/utils/cpp_extension.py  load
    Differs  operators are registered with TORCH_LIBRARY; no module is made for Python
    """
    devices = kernels().devices
    if not isinstance(devices[0].driver, EmulatorDriver):
        raise RuntimeError("on a GPU an extension is torch.utils.cpp_extension's, and for CUDA")
    made = program([Path(source) for source in sources], options)
    host = made.build_all(["host", "fast"])[0]
    if host not in _loaded:
        drivers = [devices[i].driver for i in range(len(devices))]
        _loaded[host] = Extension(made, host, drivers)  # type: ignore[arg-type]
    return _loaded[host]


@dataclass(frozen=True)
class _OnOneDevice:
    """What answers an extension's calls on one device."""

    session: Session
    calls: dict[str, Call]


class Extension:
    """A loaded extension.

    findings   what its calls and launches did wrong, as `labkit run` tells it
    """

    def __init__(
        self, source: ExtensionProgram, host: Path, drivers: Sequence[EmulatorDriver]
    ) -> None:
        self._result = ProgramResult(source.files[0].name)
        self._devices = [self._on(source, host, driver) for driver in drivers]
        self._serve = _ANSWER(self._answer)
        self._library = ctypes.CDLL(str(host))
        self._library.labkit_answer.argtypes = [ctypes.c_char_p, ctypes.c_int64]
        arena = drivers[0].arena
        self._library.labkit_serve(
            self._serve, ctypes.c_void_p(arena.base), ctypes.c_void_p(arena.base + arena.window),
            ctypes.c_size_t(arena.capacity),
        )  # fmt: skip

    def _on(self, source: ExtensionProgram, host: Path, driver: EmulatorDriver) -> _OnOneDevice:
        module = ProgramModule(driver.worker, source, host)
        session = Session(driver, module, self._result, False, _no_host_functions)
        calls = calls_of(MemoryCalls(session), StreamCalls(session), LaunchCalls(session))
        return _OnOneDevice(session, calls)

    @property
    def findings(self) -> list[ProgramFinding]:
        """Oldest first."""
        return self._result.findings

    def __repr__(self) -> str:
        return f"Extension({self._result.program!r}, {self._result.launches} launches)"

    def _answer(
        self, name: bytes, site: int, numbers: "ctypes._Pointer[ctypes.c_int64]", data: int | None,
        size: int, values: "ctypes._Pointer[ctypes.c_int64]",
    ) -> int:  # fmt: skip
        """A call of the runtime API; nothing may be raised into C."""
        known = errors.numbers()
        try:
            sent = ctypes.string_at(data, size) if data and size else b""
            question = Question(name.decode(), site, tuple(numbers[:NUMBERS]), sent)
            here = self._devices[torch.lab.current_device()]
            code, answer = self._answered(here, question)
            for i, value in enumerate(answer.values[:VALUES]):
                values[i] = value
            if answer.data:
                self._library.labkit_answer(answer.data, len(answer.data))
            return known.get(code, known["cudaErrorUnknown"])
        except BaseException as error:
            print(f"{name.decode()}: {type(error).__name__}: {error}", file=sys.stderr)
            return known["cudaErrorUnknown"]

    def _answered(self, here: _OnOneDevice, question: Question) -> tuple[str, Answer]:
        call: Callable[[Question], Answer | None] | None = here.calls.get(question.name)
        if call is None:
            return "cudaErrorNotSupported", Answer()
        try:
            return "cudaSuccess", call(question) or Answer()
        except Reported as error:
            return error.code, Answer()
        except CudaError as error:
            return here.session.refused(error, question), Answer()


def _no_host_functions(function: int, argument: int, stream: int | None) -> None:
    raise NotImplementedError("host functions of an extension are not called by streams")
