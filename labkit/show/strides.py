"""show.strides: tensors as sizes, strides and offset over the storage they share."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labkit.show.judged_views import judged
from labkit.show.names import argument_texts
from labkit.show.program import record
from labkit.show.scene import Scene
from labkit.show.views import View, read_view
from labkit.widgets.strides.affine import address
from labkit.widgets.strides.stride_view import StrideView

MAX_LOOP_STEPS = 512


def strides(
    *tensors: Any,
    names: Sequence[str] | None = None,
    aligned: bool = False,
    program: str | None = None,
    using: Mapping[str, Any] | None = None,
    compare: bool = False,
    at: int | str | None = None,
    simple: bool = False,
) -> StrideView:
    """Every tensor drawn over its storage, those that share memory over one strip of cells.

    tensors   torch tensors, labkit tensors, NumPy arrays
    names     one per tensor; taken from the call as written where not given
    aligned   expand all to their broadcast shape, and walk the loop over its indices: the element
              of every operand at one index is lit together
    program   Python lines instead of tensors: each runs once, and the picture walks them forward
              and back with the tensors alive, their values, versions and use counts
    using     names the program may use; `torch` is there
    compare   of two tensors, yours and what was expected, the first element of yours that is wrong
              is outlined in both: over one memory where the addresses differ, else the values
    at        the step to open at: its number, from 1, or words of its text
    simple    only the strip and the grids, for a first look: no sizes, counts or editors

    The widget is read back with `.layout_of()` (after edits), `.selected`, `.selected_address`,
    and changed with `.edit(name, sizes, strides, offset)`.

    Raises   TypeError    nothing to show, or an argument is not a tensor
             ValueError   a tensor without strides (sparse, nested), shapes that do not broadcast
                          (aligned), names that do not match the tensors, no step `at`, or
                          other than two tensors to compare
    """
    if program is not None:
        if tensors or aligned or names is not None:
            raise TypeError("show.strides: give either tensors or a program, not both")
        widget = record(program, using or {})
        widget.simple = simple
        return widget.open_at(at)
    if not tensors:
        raise TypeError("show.strides needs at least one tensor, or program='...'")
    if names is None:
        names = argument_texts(sys._getframe(1), len(tensors))
    if len(names) != len(tensors):
        raise ValueError(f"{len(names)} names {list(names)} for {len(tensors)} tensors")
    views = [
        read_view(tensor, f"argument {place + 1} of show.strides ({name})")
        for place, (tensor, name) in enumerate(zip(tensors, names, strict=True))
    ]
    scene = Scene()
    if compare:
        views = [replace(view, identity=None) for view in views]  # two cards, always
        scene.add(views, names)
        return scene.widget(simple=simple, **judged(views, names))
    if not aligned:
        scene.add(views, names)
        return scene.widget(simple=simple)
    shape = broadcast_shape([view.sizes for view in views])
    expanded = [_expanded(view, shape) for view in views]
    places = scene.add(expanded, names)
    steps = _loop(expanded, names, shape, places[0])
    return scene.widget(linked=True, simple=simple, steps=steps).open_at(at)


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape all of them expand to.

    Raises   ValueError   two sizes in one place differ, and neither is 1
    """
    result: list[int] = []
    for back in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {shape[-back] for shape in shapes if len(shape) >= back} - {1}
        if len(sizes) > 1:
            raise ValueError(
                f"shapes {', '.join(str(list(shape)) for shape in shapes)} do not broadcast: "
                f"{' against '.join(map(str, sorted(sizes)))} in dimension -{back}"
            )
        result.insert(0, sizes.pop() if sizes else 1)
    return tuple(result)


def expanded_strides(
    sizes: Sequence[int], strides: Sequence[int], shape: Sequence[int]
) -> tuple[int, ...]:
    """The strides with which a tensor is read at `shape`: 0 where it is stretched.

    Source   aten/src/ATen/ExpandUtils.cpp  inferExpandGeometry
    """
    if not sizes:
        return (0,) * len(shape)
    result: list[int] = []
    for back in range(1, len(shape) + 1):
        wanted = shape[-back]
        if back <= len(sizes):
            size, stride = sizes[-back], strides[-back]
        else:
            size, stride = 1, shape[1 - back] * result[0]  # a new dimension, as if contiguous
        result.insert(0, stride if size == wanted else 0)
    return tuple(result)


def _expanded(view: View, shape: tuple[int, ...]) -> View:
    strides = expanded_strides(view.sizes, view.strides, shape)
    return replace(view, sizes=shape, strides=strides, identity=None)  # an operand each


def _loop(
    views: Sequence[View], names: Sequence[str], shape: tuple[int, ...], first: int
) -> list[dict[str, Any]]:
    """A step per index, last dimension fastest; every n-th where there are more than 512."""
    numel = math.prod(shape)
    every = max(1, math.ceil(numel / MAX_LOOP_STEPS))
    rule = f"  (every {every}th of {numel} indices)" if every > 1 else ""
    steps = []
    for number in range(0, numel, every):
        index = [number // math.prod(shape[dim + 1 :]) % size for dim, size in enumerate(shape)]
        reads = ", ".join(
            f"{name} at {address(index, view.strides, view.offset)}"
            for name, view in zip(names, views, strict=True)
        )
        chosen = {"view": first, "index": index}
        steps.append({"text": f"{index}: {reads}{rule}", "select": chosen})
    return steps
