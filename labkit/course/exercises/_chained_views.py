"""Labkit under another rule for what views of views carry: that of 2020, and half repairs.

The rule is what `propagated` in labkit.autograd.variables.views says: (what the view before
carries, how the new one came to be) -> what the new one carries.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch

import labkit as lab
from labkit.autograd.variables import views
from labkit.autograd.variables.meta import CreationMeta
from labkit.conformance.autograd.chained_views import KINDS, Step, outcome, views_by
from labkit.course.exercise import Rng, handed_out


@handed_out
def rule_of_2020(before: CreationMeta, own: CreationMeta) -> CreationMeta:
    """A view carries how it came to be itself, and nothing else.

    Source   torch/csrc/autograd/VariableTypeUtils.h  as_view, before pull request 51061
    """
    return own


@handed_out
def pytorch_of_2020() -> Any:
    """Inside, labkit makes views as PyTorch did in 2020."""
    return views_by(rule_of_2020)


Made = tuple[int, str]
"""A view: the number of the view it is made of, 0 for x * 1, and how."""


def _is_refused(m: Any, views: list[Made], number: int) -> bool:
    """Whether a write to this view is, in a program that makes the views and nothing else."""
    made: list[Step] = [("view", *view) for view in views]
    return bool(outcome(m, [*made, ("write", number, 2.0)])["refused"])


def newly_refused(views: list[Made]) -> list[int]:
    """The views that the rule of 2020 lets be written, and PyTorch not today."""
    numbers = range(1, len(views) + 1)
    with pytorch_of_2020():
        before = [number for number in numbers if _is_refused(lab, views, number)]
    return [n for n in numbers if n not in before and _is_refused(torch, views, n)]


def some_views(rng: Rng, size: int, kinds: tuple[str, ...] = KINDS) -> tuple[list[Made]]:
    """Views of views; `slice` and `transpose` are as frequent as all others together."""
    dims, views = [2], []
    for _ in range(2 + size):
        source = rng.choice((len(dims) - 1, rng.randrange(len(dims))))
        kind = rng.choice(("slice", "transpose") if rng.chance(0.5) else kinds)
        if dims[source]:
            views.append((source, kind))
            dims.append(dims[source] - (kind == "unbind"))
    return (views,)


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
