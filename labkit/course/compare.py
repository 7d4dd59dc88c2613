"""Whether an answer equals what is right, and where it first does not.

An answer is compared by its data alone: a value whose class could say "equal" to everything, or
that is not plain data, is refused before anything is asked of it.
"""

import copy
import dataclasses
import enum
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

PLAIN = (
    bool, int, float, complex, str, bytes, type(None), slice, type(Ellipsis), range,
    torch.dtype, torch.device, torch.memory_format, torch.layout,
)  # fmt: skip
SEQUENCES = (tuple, list, torch.Size)
TENSORS = (torch.Tensor, torch.nn.Parameter)
LONGEST = 300
DEEPEST = 100
"""Containers in containers that are still followed."""


def as_plain(value: Any, allowed: tuple[type, ...] = (), depth: int = 0) -> Any:
    """The same data in plain classes: NumPy scalars become Python's, torch.Size a tuple.

    Raises   TypeError   a value that is not plain data, a tensor, or of an allowed class; or
                         containers nested without end
    """
    kind = type(value)
    if depth > DEEPEST:
        raise TypeError(f"returned containers in containers, more than {DEEPEST} deep")
    if kind in PLAIN or kind in TENSORS or kind in allowed or kind is np.ndarray:
        return value
    if kind in SEQUENCES:
        items = [as_plain(item, allowed, depth + 1) for item in value]
        return items if kind is list else tuple(items)
    if kind.__module__.startswith("labkit.") and hasattr(kind, "_fields"):  # a NamedTuple
        return as_plain(tuple(value), allowed, depth + 1)
    if kind in (set, frozenset):
        return kind(as_plain(item, allowed, depth + 1) for item in value)
    if kind is dict:
        return {
            as_plain(k, allowed, depth + 1): as_plain(v, allowed, depth + 1)
            for k, v in value.items()
        }
    if kind.__module__ == "numpy" and isinstance(value, np.generic):
        return value.item()
    if kind.__module__.startswith("labkit.") and (
        dataclasses.is_dataclass(value) or isinstance(value, enum.Enum)
    ):
        return value
    raise TypeError(f"returned a {kind.__module__}.{kind.__qualname__}, which is not plain data")


def difference(got: Any, expected: Any, tolerance: float = 0.0, at: str = "") -> str:
    """The first place where two plain values differ, as a sentence; "" when they are equal."""
    return next(_differences(got, expected, tolerance, at), "")


def only_differing(got: Any, expected: Any, tolerance: float = 0.0) -> tuple[Any, Any]:
    """(got, expected), both without the entries in which two dicts of the same keys agree."""
    if not isinstance(got, dict) or not isinstance(expected, dict) or got.keys() != expected.keys():
        return got, expected
    yours, right = copy.copy(got), copy.copy(expected)
    for key in expected:
        if not difference(got[key], expected[key], tolerance):
            del yours[key], right[key]
    return yours, right


def _differences(got: Any, expected: Any, tolerance: float, at: str) -> Iterator[str]:
    if isinstance(expected, torch.Tensor):
        yield from _tensor_differences(got, expected, tolerance, at)
    elif isinstance(expected, np.ndarray):
        if not isinstance(got, np.ndarray):
            yield _said(at, _Words("an array"), got)
        else:
            if got.dtype != expected.dtype:
                yield _said(f"{at} dtype", expected.dtype, got.dtype)
            yield from _differences(got.tolist(), expected.tolist(), tolerance, at)
    elif isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple):
            yield _said(at, _Words(f"a sequence of {len(expected)}"), got)
        elif len(got) != len(expected):
            yield _said(f"{at} length", len(expected), len(got))
        else:
            for index, (one, other) in enumerate(zip(got, expected, strict=True)):
                yield from _differences(one, other, tolerance, f"{at}[{index}]")
    elif isinstance(expected, dict):
        if not isinstance(got, dict):
            yield _said(at, _Words(f"a dict with {len(expected)} keys"), got)
        elif got.keys() != expected.keys():
            yield _said(f"{at} keys", list(expected), list(got))
        else:
            for key, value in expected.items():
                yield from _differences(got[key], value, tolerance, f"{at}[{key!r}]")
    elif dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        if type(got) is not type(expected):
            yield _said(at, type(expected).__name__, got)
        else:
            for field in dataclasses.fields(expected):
                one, other = (getattr(value, field.name) for value in (got, expected))
                yield from _differences(one, other, tolerance, f"{at}.{field.name}")
    elif not _equal_atoms(got, expected, tolerance):
        yield _said(at, expected, got)


def _equal_atoms(got: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(expected, float) and type(got) in (int, float):
        if math.isnan(expected) or math.isinf(expected) or not math.isfinite(got):
            return (math.isnan(expected) and math.isnan(got)) or expected == got
        return math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
    return type(got) is type(expected) and bool(got == expected)


def _tensor_differences(
    got: Any, expected: torch.Tensor, tolerance: float, at: str
) -> Iterator[str]:
    if not isinstance(got, torch.Tensor):
        yield _said(at, _Words(f"a tensor of sizes {tuple(expected.shape)}"), got)
        return
    if not _is_readable(got):
        yield _said(at, _Words("a dense tensor with values"), got)
        return
    for name in ("shape", "dtype", "device"):
        one, other = getattr(got, name), getattr(expected, name)
        if one != other:
            one, other = (tuple(v) if name == "shape" else v for v in (one, other))
            yield _said(f"{at} {name}", other, one)
            return
    same = torch.isclose(got, expected, rtol=tolerance, atol=tolerance * 1e-3, equal_nan=True)
    if not bool(same.all()):
        index = tuple((~same).nonzero()[0].tolist())
        where = f"{at} element {list(index)}" if index else at
        yield _said(where, expected[index].item(), got[index].item())


def _is_readable(tensor: torch.Tensor) -> bool:
    """Whether its elements can be had one by one: not sparse, nested, quantized or meta."""
    odd = tensor.is_nested or tensor.is_quantized or tensor.is_meta
    return tensor.layout == torch.strided and not odd


class _Words(str):
    """A description, to be said without quotes."""

    __slots__ = ()


def _said(at: str, expected: Any, got: Any) -> str:
    where = f"{at.strip()}: " if at.strip() else ""
    wanted = str(expected) if isinstance(expected, _Words) else in_words(expected)
    return f"{where}expected {wanted}, got {in_words(got)}"


def in_print(text: str) -> str:
    """The text as any screen and file can hold it: half a surrogate pair is written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def in_words(value: Any) -> str:
    """A value as short text: tensors with their metadata, long reprs cut in the middle."""
    text = in_print(_in_words(value, 0))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 60]} ... {text[-55:]}"


def _in_words(value: Any, depth: int) -> str:
    if depth > DEEPEST:
        return "..."
    if isinstance(value, torch.Tensor) and not _is_readable(value):
        kind = "nested" if value.is_nested else "quantized" if value.is_quantized else value.layout
        text = f"tensor(dtype={value.dtype}, device={value.device}, {kind})"
    elif isinstance(value, torch.Tensor):
        text = (
            f"tensor(sizes={tuple(value.shape)}, dtype={value.dtype}"
            f"{'' if value.is_contiguous() else f', strides={value.stride()}'}"
            f"{f', values={value.tolist()}' if value.numel() <= 24 else ''})"
        )
    elif type(value) in (tuple, list):
        inner = ", ".join(_in_words(item, depth + 1) for item in value)
        if type(value) is tuple:
            text = f"({inner},)" if len(value) == 1 else f"({inner})"
        else:
            text = f"[{inner}]"
    elif type(value) is dict:
        pairs = ((_in_words(k, depth + 1), _in_words(v, depth + 1)) for k, v in value.items())
        text = "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
    else:
        try:
            text = repr(value)
        except Exception as error:  # an answer's own class: its repr is not to be trusted
            text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 60]} ... {text[-55:]}"
