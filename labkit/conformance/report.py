"""What one comparison found, and the table of all layers that can be compared."""

import importlib
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

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
    "kernels": "labkit.conformance.kernels",
    "torch_device": "labkit.conformance.torch_device",
}
"""Layer name -> module. A module offers `compare(seed, size)`, yielding one `Comparison` per
question asked of both sides, and `NOT_MODELLED`, the sentences the command prints. One with a
`SYSTEM` compares another part than labkit's own, too: see `system_in`."""


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


def system_in(path: str, layer: str) -> Any:
    """What a Python file defines in place of the layer's own part.

    The layer's `SYSTEM` is the name it has there, and its `compare` takes it as `system`.

    Raises   InputError   the layer takes no other part, the file cannot be run, or defines none
    """
    name = getattr(load(layer), "SYSTEM", None)
    if name is None:
        taking = ", ".join(each for each in LAYERS if hasattr(load(each), "SYSTEM"))
        raise InputError(f"{layer} compares labkit alone; a system can be given to {taking}")
    try:
        defined = runpy.run_path(path, run_name=f"system under {layer}")
    except Exception as error:
        raise InputError(f"{path} does not run: {type(error).__name__}: {error}") from error
    if name not in defined:
        raise InputError(f"{path} defines no {name}, which is what {layer} compares")
    return defined[name]


def run(layer: str, seed: int, size: Size, **options: Any) -> Iterator[Comparison]:
    """Compare one layer; `options` go to the layer's own `compare`."""
    yield from load(layer).compare(seed, size, **options)
