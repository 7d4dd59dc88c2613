"""Views of views, and writes to them: what is refused, with which words, and what flows back.

Every program begins with x * 1 of a 3 by 3 leaf; each way to a view that may not be written is in
it: outputs of `unbind` and `split`, of a custom Function, views made in no_grad and inference mode.
"""

import functools
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest import mock

import torch

import labkit as lab
from labkit.autograd.variables import views
from labkit.autograd.variables.meta import CreationMeta
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally

Rule = Callable[[CreationMeta, CreationMeta], CreationMeta]
Step = tuple[Any, ...]

PROGRAMS = {"small": 60, "full": 3_000}
KINDS = ("slice", "transpose", "unbind", "split", "no_grad", "inference_mode", "Reverse")
"""Ways to make a view; the first two forbid nothing."""


@contextmanager
def views_by(rule: Rule) -> Iterator[None]:
    """Inside, labkit asks this rule what a view of a view carries."""
    with mock.patch.object(views, "propagated", rule):
        yield


@functools.cache
def reverse(m: Any) -> Any:
    """The layer that changes the sign of the gradient, for labkit or for torch."""

    class Reverse(m.autograd.Function):  # type: ignore[misc]
        """Its output is its input, seen through a view."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return -grad

    return Reverse


def _view(m: Any, x: Any, kind: str) -> Any:
    if kind == "no_grad":
        with m.no_grad():
            return x[:2]
    if kind == "inference_mode":
        with m.inference_mode():
            return x[:2]
    if kind == "Reverse":
        return reverse(m).apply(x)
    ways: dict[str, Callable[[], Any]] = {
        "slice": lambda: x[:2],
        "transpose": lambda: x.transpose(0, -1),
        "unbind": lambda: x.unbind()[0],
        "split": lambda: x.split(2)[0],
    }
    return ways[kind]()


def _sentence(error: Exception) -> str:
    """The first two sentences: what happened, and why it is refused."""
    said = ". ".join(str(error).split(". ")[:2])
    return said.replace("Backward0 is a view", " is a view")  # the node's name, before 2.13


def outcome(m: Any, program: list[Step]) -> dict[str, Any]:
    """What is refused on the way, and at the end each view's gradient of x, or why it has none."""
    x = m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], requires_grad=True)
    made, refused = [x * 1], []
    for kind, source, what in program:
        try:
            if kind == "view":
                made.append(_view(m, made[source], what))
            else:
                made[source].mul_(what)
        except NotImplementedError:  # of a rule not written yet; it is a RuntimeError as well
            raise
        except RuntimeError as error:
            refused.append(f"{kind} {source} {what}: {_sentence(error)}")
            if kind == "view":
                made.append(made[source])
    return {"refused": refused, "gradients": [_gradient(view, x) for view in made]}


def _gradient(view: Any, x: Any) -> Any:
    x.grad = None
    try:
        view.sum().backward(retain_graph=True)
    except NotImplementedError:  # backward makes views as well
        raise
    except RuntimeError as error:
        return _sentence(error)
    return None if x.grad is None else x.grad.flatten().tolist()


def chained(rng: Random, size: int, kinds: tuple[str, ...] = KINDS) -> tuple[list[Step]]:
    """Views of views, one of each three or so written."""
    dims = [2]
    program: list[Step] = []
    for _ in range(2 + size):
        source = len(dims) - 1 if rng.random() < 0.7 else rng.randrange(len(dims))
        if rng.random() < 0.35:
            program.append(("write", source, float(rng.choice((2, 3, -1)))))
            continue
        plain = dims[source] == 0 or rng.random() < 0.3
        kind = rng.choice(("slice", "transpose") if plain else kinds)
        if dims[source] == 0:
            continue
        program.append(("view", source, kind))
        dims.append(dims[source] - (kind == "unbind"))
    program.append(("write", len(dims) - 1, 2.0))
    return (program,)


def described(program: list[Step]) -> str:
    """The program, one step after the other; v0 is x * 1."""
    lines, count = [], 0
    for kind, source, what in program:
        count += kind == "view"
        lines.append(
            f"v{count} = {what} of v{source}" if kind == "view" else f"v{source} *= {what}"
        )
    return "; ".join(lines)


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Programs made from the seed."""
    tally = Tally("programs of chained views")
    for number in range(PROGRAMS[size]):
        (program,) = chained(Random(f"chained views {seed} {number}"), number % 5)
        theirs, ours = outcome(torch, program), outcome(lab, program)
        steps = textwrap.fill(described(program), 90, initial_indent="  ")
        tally.note("" if ours == theirs else f"{steps}\n{_difference(ours, theirs)}")
    yield tally.result()


def _difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """The first thing that one side says and the other does not."""
    for what, right in theirs.items():
        for side, found, other in (("torch", right, ours[what]), ("labkit", ours[what], right)):
            for place, one in enumerate(found):
                if one not in other if what == "refused" else one != other[place]:
                    said = f"{side} alone: {what} {one}"
                    return textwrap.fill(said, 90, initial_indent="  ", subsequent_indent="    ")
    return ""
