"""What somebody brings who adds an element-wise operator of two tensors, and how it is tried."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labkit.autograd.derivatives.row import Row
from labkit.autograd.kernels.no_derivative import not_implemented_kernel
from labkit.autograd.kernels.recording_kernel import RecordingKernel
from labkit.core import tensor_impl
from labkit.core.formats import decode, encode
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.library import Library
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.schema_parser import parse_schema
from labkit.ops.aten import aten

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass
class Change:
    """One operator, piece by piece; a piece that is not there yet is None, or "".

    schema    as in native_functions.yaml: "xlogy.Tensor(Tensor self, Tensor other) -> Tensor"
    looks     (self, other) -> (shape, dtype) of the result: the meta function
    numbers   (x, y) -> the result's numbers: x and y are arrays that broadcast, of the result's
              dtype
    formulas  argument -> its gradient, as text: a row of the table of derivatives
    samples   () -> pairs of torch tensors that the operator is tested with
    docs      what a user reads

    Source    aten/src/ATen/native/README.md
    """

    schema: str
    looks: Callable[[Any, Any], tuple[Sequence[int], Any]] | None = None
    numbers: Callable[[Any, Any], Any] | None = None
    formulas: Mapping[str, str] | None = None
    samples: Callable[[], Sequence[Pair]] | None = None
    docs: str = ""

    @property
    def name(self) -> str:
        """The operator's name and overload, without namespace: "xlogy.Tensor"."""
        return self.schema.partition("(")[0]

    @property
    def theirs(self) -> Any:
        """PyTorch's operator of that name.

        Raises   AttributeError   it has none
        """
        base, _, overload = self.name.partition(".")
        return getattr(getattr(torch.ops.aten, base), overload or "default")

    @contextmanager
    def in_labkit(self) -> Iterator[OperatorHandle]:
        """Inside, labkit has the operator, with the pieces that are there.

        Raises   SchemaError, ValueError   the schema cannot be read
                 RuntimeError              labkit has this operator already
        """
        with Library("aten", "FRAGMENT") as library:
            operator = library.define(self.schema)
            if self.looks is not None and self.numbers is not None:
                library.impl(operator, self._kernel, "CPU")
            record: Any = not_implemented_kernel(operator)
            if self.formulas is not None:
                node = f"{operator.schema.name.partition('::')[2].capitalize()}Backward0"
                record = RecordingKernel(operator, Row(self.name, node, self.formulas))
            library.impl(operator, record, "Autograd", with_keyset=True)
            try:
                yield operator
            finally:
                vars(aten).pop(self.name.partition(".")[0], None)  # it keeps what it has found

    def _kernel(self, self_: TensorImpl, other: TensorImpl) -> TensorImpl:
        """As a structured kernel: the meta function first, then the loop fills what it said."""
        assert self.looks is not None and self.numbers is not None
        shape, dtype = self.looks(self_, other)
        made = tensor_impl.empty(tuple(shape), dtype)
        kind = decode(made.raw(), dtype).dtype
        x, y = (decode(each.raw(True), each.dtype) for each in (self_, other))
        with np.errstate(all="ignore"):
            computed = np.asarray(self.numbers(_as(x, kind), _as(y, kind)))
        if computed.shape != tuple(shape):
            raise RuntimeError(f"the numbers are {computed.shape}, the result {tuple(shape)}")
        made.raw(True)[...] = encode(computed, dtype)
        return made


def _as(x: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """The array in this type: itself, writable as a pointer of C++ is, where it has it already."""
    return x.astype(kind, copy=False)


def parsed(schema: str) -> Any:
    """The schema, read; types that nobody knows are refused.

    Raises   SchemaError, ValueError   it cannot be read
    """
    return parse_schema(f"aten::{schema}", known_types=True)
