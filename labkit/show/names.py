"""The source text of a call's arguments, so that a picture says `x.t()` where the cell does."""

import ast
import linecache
from collections.abc import Mapping
from itertools import islice
from types import FrameType
from typing import Any


def argument_texts(frame: FrameType, count: int) -> list[str]:
    """The first `count` positional arguments of the call the frame is in, as written.

    frame   the caller's; where its source is not to be had the names are a, b, c, ...
    """
    fallback = [chr(ord("a") + place) if place < 26 else f"t{place}" for place in range(count)]
    where = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if where is None or None in where:
        return fallback
    first, last, start, end = where
    assert first is not None and last is not None and start is not None and end is not None
    lines = [
        linecache.getline(frame.f_code.co_filename, number).encode()  # columns count bytes
        for number in range(first, last + 1)
    ]
    if not lines or not lines[0]:
        return fallback
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    source = b"".join(lines).decode(errors="replace")
    try:
        call = ast.parse(source.strip(), mode="eval").body
    except SyntaxError:
        return fallback
    if not isinstance(call, ast.Call) or len(call.args) != count:
        return fallback
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return fallback
    texts = [ast.unparse(argument) for argument in call.args]
    short = [
        text if len(text) <= 28 else default for text, default in zip(texts, fallback, strict=True)
    ]
    return short if len(set(short)) == len(short) else fallback


def tensor_names(frame: FrameType) -> dict[int, str]:
    """The names of the tensors the frame's variables hold, by id; its own before global ones."""
    found = tensors_in({**frame.f_globals, **frame.f_locals})
    return {id(value): name for name, value in found.items()}


def tensors_at(frame: FrameType) -> dict[int, str]:
    """Address -> the name of a variable of the frame whose tensor begins there."""
    found = tensors_in({**frame.f_globals, **frame.f_locals})
    return {one.data_ptr(): name for name, one in found.items() if one.numel()}


def tensors_in(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors among the variables, without those whose names begin with an underscore.

    Their types are asked: a stale view raises when it is asked itself.
    """
    return {
        name: value
        for name, value in variables.items()
        if not name.startswith("_") and hasattr(type(value), "grad_fn")
    }
