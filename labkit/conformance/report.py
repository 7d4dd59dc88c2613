"""What one comparison found, and the table of all layers that can be compared."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

Size = Literal["small", "full"]

LAYERS = {
    "promotion": "labkit.conformance.promotion",
    "views": "labkit.conformance.views",
    "indexing": "labkit.conformance.indexing",
    "dispatcher": "labkit.conformance.dispatcher",
    "iterator": "labkit.conformance.iterator",
    "allocator": "labkit.conformance.allocator",
    "autograd": "labkit.conformance.autograd",
    "amp": "labkit.conformance.amp",
    "torch_device": "labkit.conformance.torch_device",
}
"""Layer name -> module. A module offers `compare(seed, size)`, yielding one `Comparison` per
question asked of both sides, and `NOT_MODELLED`, the sentences the command prints."""


class InputError(ValueError):
    """What the user named cannot be compared; the command shows the text alone."""


@dataclass(frozen=True)
class Comparison:
    """One question, asked of labkit and of the installed PyTorch.

    what              the question, in a few words
    compared          how many answers were compared, > 0
    equal             how many of them were equal
    first_difference  the first unequal one in full, ready to reproduce; None when all are equal
    left_out          what could not be asked, one sentence each: labkit has not got it
    """

    what: str
    compared: int
    equal: int
    first_difference: str | None = None
    left_out: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True when something was compared and everything was equal."""
        return self.compared > 0 and self.equal == self.compared

    def __str__(self) -> str:
        verdict = "equal" if self.passed else "DIFFERENT" if self.compared else "NOTHING COMPARED"
        line = f"{self.what}: {self.equal:,} / {self.compared:,} {verdict}"
        left_out = [f"\n  left out: {sentence}" for sentence in self.left_out]
        first = "" if self.first_difference is None else f"\n{self.first_difference}"
        return "".join([line, first, *left_out])


def load(layer: str) -> ModuleType:
    """The conformance module of a layer.

    Raises   ValueError   no such layer
    """
    if layer not in LAYERS:
        raise ValueError(f"no conformance layer {layer!r}; there are {', '.join(LAYERS)}")
    return importlib.import_module(LAYERS[layer])


def run(layer: str, seed: int, size: Size, **options: str) -> Iterator[Comparison]:
    """Compare one layer; `options` go to the layer's own `compare`."""
    yield from load(layer).compare(seed, size, **options)
