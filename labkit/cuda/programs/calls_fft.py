"""cuFFT's transforms, as a reference for the kernels of a program."""

import ctypes
import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.cuda.operation import Operation
from labkit.cuda.programs.session import Session
from labkit.cuda.programs.wire import Answer, Question

_FFT = struct.Struct("<7i4x2Q")
_FORWARD = -1
_DOUBLE = 0x40
"""The bit of a transform's type that says double precision."""
_R2C, _C2R = 0x2A, 0x2C


class FftCalls:
    """The transforms, queued on the plan's stream."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def cufftExec(self, question: Question) -> Answer:
        rank, *sizes, batch, kind, direction, source, target = _FFT.unpack(question.data)
        shape = (batch, *sizes[:rank])
        half = (*shape[:-1], shape[-1] // 2 + 1)
        # In place, a row of real numbers has the room of its complex ones.
        rows = (*half[:-1], 2 * half[-1]) if source == target else shape
        complex_type: Any = np.complex128 if kind & _DOUBLE else np.complex64
        real_type: Any = np.float64 if kind & _DOUBLE else np.float32
        plain = kind & ~_DOUBLE
        taken = (rows, real_type) if plain == _R2C else (half, complex_type)
        given = (rows, real_type) if plain == _C2R else (half, complex_type)
        if plain not in (_R2C, _C2R):
            taken = given = (shape, complex_type)
        for address, (one, dtype) in ((source, taken), (target, given)):
            size = math.prod(one) * np.dtype(dtype).itemsize
            self._session.driver.transfers.check(address, size, "signal")

        def call() -> None:
            x = self._array(source, *taken)
            out = self._array(target, *given)
            axes = range(1, rank + 1)
            # No direction divides by the number of elements, as NumPy's inverse does.
            scale = 1 if direction == _FORWARD else math.prod(shape[1:])
            if plain == _R2C:
                out[...] = np.fft.rfftn(x[..., : shape[-1]].astype(np.float64), axes=axes)
            elif plain == _C2R:
                real = np.fft.irfftn(x.astype(np.complex128), s=shape[1:], axes=axes)
                out[..., : shape[-1]] = real * scale
            else:
                transform = np.fft.fftn if direction == _FORWARD else np.fft.ifftn
                out[...] = transform(x.astype(np.complex128), axes=axes) * scale

        stream = self._session.stream(question.numbers[0])
        self._session.driver.submit(stream, Operation("host", "fft", call=call))
        return Answer()

    def _array(self, address: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Elements on the device, where this process reaches them."""
        reachable = self._session.driver.arena.reachable(address)
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = memoryview((ctypes.c_char * size).from_address(reachable))
        return np.frombuffer(memory, dtype).reshape(shape)
