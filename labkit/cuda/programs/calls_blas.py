"""cuBLAS's matrix products, as a reference for the kernels of a program."""

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import formats
from labkit.core.dtype import DType, bfloat16, float16, float32, float64
from labkit.cuda.errors import InvalidValueError
from labkit.cuda.operation import Operation
from labkit.cuda.programs.session import Session
from labkit.cuda.programs.wire import Answer, Question

_GEMM = struct.Struct("<10i2d3Q3q")
_TYPES = {0: float32, 1: float64, 2: float16, 14: bfloat16}
"""By the number of their cudaDataType_t."""
_NOT_TRANSPOSED = 0


@dataclass(frozen=True)
class Matrix:
    """A matrix on the device, column by column.

    leading   elements from one column to the next
    """

    address: int
    rows: int
    columns: int
    leading: int
    dtype: DType

    @property
    def size_bytes(self) -> int:
        """From its first byte to its last."""
        elements = self.leading * (self.columns - 1) + self.rows
        return elements * self.dtype.itemsize if self.rows and self.columns else 0

    def array(self, reachable: int) -> NDArray[Any]:
        """Its elements as they are stored, where this process reaches them."""
        size = self.dtype.itemsize
        memory = memoryview((ctypes.c_char * self.size_bytes).from_address(reachable))
        strides = (size, size * self.leading)
        return np.ndarray((self.rows, self.columns), self.dtype.raw, memory, strides=strides)


class BlasCalls:
    """The products, queued on the handle's stream."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def cublasGemm(self, question: Question) -> Answer:
        a_op, b_op, m, n, k, lda, ldb, ldc, batch, kind, alpha, beta, a, b, c, *strides = (
            _GEMM.unpack(question.data)
        )
        if min(m, n, k) < 0:
            raise InvalidValueError(f"a product of {m} x {k} and {k} x {n} matrices")
        if kind not in _TYPES:
            known = ", ".join(one.name for one in _TYPES.values())
            raise InvalidValueError(f"a product in cudaDataType_t {kind}; the emulator has {known}")
        a_shape = (m, k) if a_op == _NOT_TRANSPOSED else (k, m)
        b_shape = (k, n) if b_op == _NOT_TRANSPOSED else (n, k)
        leadings = ((a_shape, lda), (b_shape, ldb), ((m, n), ldc))
        if any(leading < max(1, rows) for (rows, _), leading in leadings):
            raise InvalidValueError(f"leading dimensions {lda}, {ldb}, {ldc} are too small")
        dtype = _TYPES[kind]
        size = dtype.itemsize
        products = [
            (
                Matrix(a + i * strides[0] * size, *a_shape, lda, dtype),
                Matrix(b + i * strides[1] * size, *b_shape, ldb, dtype),
                Matrix(c + i * strides[2] * size, m, n, ldc, dtype),
            )
            for i in range(batch)
        ]
        for matrix in (one for product in products for one in product):
            self._session.driver.transfers.check(matrix.address, matrix.size_bytes, "matrix")

        def call() -> None:
            for left, right, out in products:
                self._multiply(left, right, out, (a_op, b_op), alpha, beta)

        stream = self._session.stream(question.numbers[0])
        self._session.driver.submit(stream, Operation("host", "gemm", call=call))
        return Answer()

    def _multiply(
        self,
        left: Matrix,
        right: Matrix,
        out: Matrix,
        ops: tuple[int, int],
        alpha: float,
        beta: float,
    ) -> None:
        arena = self._session.driver.arena
        a, b, c = (one.array(arena.reachable(one.address)) for one in (left, right, out))
        a, b = formats.decode(a, left.dtype), formats.decode(b, right.dtype)
        a = a if ops[0] == _NOT_TRANSPOSED else a.T
        b = b if ops[1] == _NOT_TRANSPOSED else b.T
        total = alpha * (a.astype(np.float64) @ b.astype(np.float64))
        if beta:
            total += beta * formats.decode(c, out.dtype).astype(np.float64)
        c[...] = formats.encode(total, out.dtype)
