"""A tensor as text, formatted as PyTorch formats it.

Source   torch/_tensor_str.py
Differs  no print options: four digits, 80 columns, and three items at each edge above 1000.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import promotion
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.tensors import copy

PRECISION = 4
LINE_WIDTH = 80
THRESHOLD = 1000
EDGE_ITEMS = 3

Format = Callable[[Any], str]


def tensor_str(self: TensorImpl, name: str = "tensor", *, also: str = "") -> str:
    """The text of a tensor: its values, then what the values do not show.

    also  a last note, such as "requires_grad=True"
    """
    notes = []
    if self.device.type != "cpu":
        notes.append(f"device='{self.device}'")
    if self.numel() == 0 and self.dim() != 1:
        notes.append(f"size={self.sizes}")
    shown_by_values = (
        dtypes.int64, dtypes.bool_, promotion.get_default_dtype(), promotion.default_complex_dtype()
    )  # fmt: skip
    empty_default = self.numel() == 0 and self.dtype is not promotion.get_default_dtype()
    if self.dtype not in shown_by_values or empty_default:
        notes.append(f"dtype={self.dtype!r}")
    if also:
        notes.append(also)
    indent = len(name) + 1
    body = "[]" if self.numel() == 0 else _body(self, indent)
    text = f"{name}({body}"
    last_line = len(text) - text.rfind("\n") + 1
    for note in notes:
        if last_line + len(note) + 2 > LINE_WIDTH:
            text += f",\n{' ' * indent}{note}"
            last_line = indent + len(note)
        else:
            text += f", {note}"
            last_line += len(note) + 2
    return text + ")"


def _body(self: TensorImpl, indent: int) -> str:
    values = copy.values(self)
    summarize = values.size > THRESHOLD
    shown = _edges(values) if summarize else values
    return _nested(values, _formatter(shown, self), indent, summarize)


def _edges(values: NDArray[Any]) -> NDArray[Any]:
    for axis, size in enumerate(values.shape):
        if size > 2 * EDGE_ITEMS:
            kept = [*range(EDGE_ITEMS), *range(size - EDGE_ITEMS, size)]
            values = values.take(kept, axis)
    return values


def _formatter(values: NDArray[Any], of: TensorImpl) -> Format:
    flat = values.ravel()
    if of.dtype.is_complex:
        real, imag = _float_formatter(flat.real), _float_formatter(flat.imag)

        def pair(value: Any) -> str:
            imaginary = imag(value.imag).strip()
            sign = "" if imaginary[0] in "+-" else "+"
            return f"{real(value.real)}{sign}{imaginary}j"

        return pair
    if of.dtype.is_floating_point:
        return _float_formatter(flat)
    width = max(len(str(value)) for value in flat.tolist())
    return lambda value: str(value).rjust(width)


def _float_formatter(flat: NDArray[Any]) -> Format:
    visible = np.abs(flat[np.isfinite(flat) & (flat != 0)]).astype(np.float64)
    finite = flat[np.isfinite(flat)]
    if not visible.size:
        text = "{:.0f}."
    else:
        low, high = float(visible.min()), float(visible.max())
        whole = bool((np.ceil(finite) == finite).all())
        spread = high / low > 1000.0 or high > 1.0e8
        if spread or (not whole and low < 1.0e-4):
            text = f"{{:.{PRECISION}e}}"
        else:
            text = "{:.0f}." if whole else f"{{:.{PRECISION}f}}"

    def number(value: Any) -> str:
        value = float(value)
        return text.format(value) if math.isfinite(value) else str(value)

    considered = finite[finite != 0]
    width = max([len(number(value)) for value in considered] or [1])
    return lambda value: number(value).rjust(width)


def _nested(values: NDArray[Any], text_of: Format, indent: int, summarize: bool) -> str:
    if values.ndim == 0:
        return text_of(values.item())
    size = len(values)
    cut = summarize and size > 2 * EDGE_ITEMS
    if values.ndim == 1:
        ends = (values[:EDGE_ITEMS].tolist(), values[-EDGE_ITEMS:].tolist())
        items = [text_of(value) for value in (ends[0] + ends[1] if cut else values.tolist())]
        if cut:
            items.insert(EDGE_ITEMS, " ...")
        per_line = max(1, (LINE_WIDTH - indent) // (len(items[0]) + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = [*range(EDGE_ITEMS), *range(size - EDGE_ITEMS, size)] if cut else range(size)
    slices = [_nested(values[row], text_of, indent + 1, summarize) for row in rows]
    if cut:
        slices.insert(EDGE_ITEMS, "...")
    separator = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
    return "[" + separator.join(slices) + "]"
