"""Programs of views of views and writes to them, and labkit under another rule for what they carry.

The rule is what `propagated` in labkit.autograd.variables.views says: (what the view before
carries, how the new one came to be) -> what the new one carries.
"""

import functools
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch

import labkit as lab
from labkit.autograd.variables import views
from labkit.autograd.variables.meta import CreationMeta
from labkit.conformance.report import Comparison
from labkit.course.exercise import Rng, handed_out

Rule = Callable[[CreationMeta, CreationMeta], CreationMeta]
Step = tuple[Any, ...]

KINDS = ("slice", "transpose", "unbind", "split", "no_grad", "inference_mode", "Reverse")
"""Ways to make a view; the first two forbid nothing."""


@handed_out
def rule_of_2020(before: CreationMeta, own: CreationMeta) -> CreationMeta:
    """A view carries how it came to be itself, and nothing else.

    Source   torch/csrc/autograd/VariableTypeUtils.h  as_view, before pull request 51061
    """
    return own


@handed_out
@contextmanager
def views_by(rule: Rule) -> Iterator[None]:
    """Inside, labkit asks this rule what a view of a view carries."""
    with mock.patch.object(views, "propagated", rule):
        yield


@handed_out
def pytorch_of_2020() -> Any:
    """Inside, labkit makes views as PyTorch did in 2020."""
    return views_by(rule_of_2020)


@functools.cache
@handed_out
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


@handed_out
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


@handed_out
def _sentence(error: Exception) -> str:
    """The first two sentences: what happened, and why it is refused."""
    said = ". ".join(str(error).split(". ")[:2])
    return said.replace("Backward0 is a view", " is a view")  # the node's name, before 2.13


@handed_out
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


@handed_out
def _gradient(view: Any, x: Any) -> Any:
    x.grad = None
    try:
        view.sum().backward(retain_graph=True)
    except NotImplementedError:  # backward makes views as well
        raise
    except RuntimeError as error:
        return _sentence(error)
    return None if x.grad is None else x.grad.flatten().tolist()


def chained(rng: Rng, size: int, kinds: tuple[str, ...] = KINDS) -> tuple[list[Step]]:
    """Views of views, one of each three or so written."""
    dims = [2]
    program: list[Step] = []
    for _ in range(2 + size):
        source = len(dims) - 1 if rng.chance(0.7) else rng.randrange(len(dims))
        if rng.chance(0.35):
            program.append(("write", source, float(rng.choice((2, 3, -1)))))
            continue
        plain = dims[source] == 0 or rng.chance(0.3)
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


@handed_out
def against_torch(rule: Rule, programs: int = 60, seed: int = 0) -> Comparison:
    """How many random programs end under this rule as they do in the installed PyTorch."""
    equal, first = 0, None
    for number in range(programs):
        (program,) = chained(Rng(f"chained views {seed} {number}"), number % 5)
        theirs = outcome(torch, program)
        with views_by(rule):
            ours = outcome(lab, program)
        equal += ours == theirs
        if ours != theirs and first is None:
            steps = textwrap.fill(described(program), 90, initial_indent="  ")
            first = f"{steps}\n{_difference(ours, theirs)}"
    return Comparison("programs of chained views", programs, equal, first)


def _difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """The first thing that one side says and the other does not."""
    for what, right in theirs.items():
        for side, found, other in (("torch", right, ours[what]), ("labkit", ours[what], right)):
            for place, one in enumerate(found):
                if one not in other if what == "refused" else one != other[place]:
                    said = f"{side} alone: {what} {one}"
                    return textwrap.fill(said, 90, initial_indent="  ", subsequent_indent="    ")
    return ""


def _only(*handed_on: CreationMeta) -> Callable[[CreationMeta, CreationMeta], CreationMeta]:
    """A rule that hands on these records, and forgets the others."""
    return lambda before, own: (
        before if own is CreationMeta.DEFAULT and before in handed_on else own
    )


@handed_out
@contextmanager
def _one_view_further() -> Iterator[None]:
    """A view looks at how the one before it was made, not at what that one carries."""
    plain = views._link

    def link(parent: Any, view: Any, node: Any, own: CreationMeta, again: Any) -> None:
        above, before = parent.autograd_meta, view.autograd_meta
        plain(parent, view, node, own, again)
        meta = view.autograd_meta
        if meta is before:
            return
        meta.made = own
        if own is CreationMeta.DEFAULT and above is not None and above.is_view:
            meta.creation = getattr(above, "made", above.creation)

    with mock.patch.object(views, "_link", link):
        yield


_BANS = [record for record in CreationMeta if record is not CreationMeta.DEFAULT]
GREEN: dict[str, tuple[Any, Callable[[], Any]]] = {
    "the installed PyTorch": (torch, nullcontext),
    "labkit": (lab, nullcontext),
}
RED: dict[str, tuple[Any, Callable[[], Any]]] = {
    "labkit of 2020": (lab, lambda: views_by(rule_of_2020)),
}
HALF: dict[str, tuple[Any, Callable[[], Any]]] = {
    "the ban is lost at the second view": (lab, _one_view_further),
    "every write to a view of a view is refused": (
        lab,
        lambda: views_by(lambda before, own: CreationMeta.MULTI_OUTPUT_NODE),
    ),
    "the ban of unbind alone is handed on": (
        lab,
        lambda: views_by(_only(CreationMeta.MULTI_OUTPUT_NODE)),
    ),
    "the ban of no_grad is lost": (
        lab,
        lambda: views_by(_only(*(ban for ban in _BANS if ban is not CreationMeta.NO_GRAD_MODE))),
    ),
    "the ban of a custom Function is lost": (
        lab,
        lambda: views_by(
            _only(*(ban for ban in _BANS if ban is not CreationMeta.IN_CUSTOM_FUNCTION))
        ),
    ),
}
SIDES = {**GREEN, **RED, **HALF}
