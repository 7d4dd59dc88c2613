"""(a) Every slot of every operator of the process, and every schema."""

from collections.abc import Iterator

import torch

from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally
from labkit.core.dispatch_key import FUNCTIONALITIES, RUNTIME_KEYS, DispatchKey
from labkit.dispatch import torch_tables
from labkit.dispatch.schema_parser import SchemaError, parse_schema
from labkit.dispatch.table import AMBIGUOUS, Cell, compute_table
from labkit.dispatch.torch_keys import layout
from labkit.dispatch.torch_tables import TorchCell


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """All operators, whatever the size: it takes seconds. Nothing here is random."""
    yield _version()
    names = torch_tables.operator_names()
    yield _cells(names)
    yield _schemas(names)


def _version() -> Comparison:
    here = layout()
    note = ""
    if here.absent or here.unknown:
        lacks = ", ".join(map(str, here.absent)) or "none"
        new = ", ".join(here.unknown) or "none"
        note = f" (labkit models 2.13; torch {torch.__version__} lacks {lacks}, has new {new})"
    known = len(here.functionalities) - len(here.unknown)
    tally = Tally(f"dispatch keys in PyTorch's order{note}")
    order = [key.name for key in FUNCTIONALITIES if key not in here.absent]
    theirs = [name for name in here.functionalities if name not in here.unknown]
    if here.unknown:  # an older list, in which `Fake` comes after `Python`
        order, theirs = sorted(order), sorted(theirs)
    for number in range(known):
        tally.add(order[number], theirs[number], f"functionality number {number + 1}")
    return tally.result()


def _cells(names: list[str]) -> Comparison:
    tally = Tally(f"table cells of {len(names):,} operators, from raw registrations")
    fallbacks = torch_tables.global_fallbacks()
    for name in names:
        real = torch_tables.table_of(name)
        mine = compute_table(torch_tables.kernels_of(name), fallbacks)
        for slot, cell in zip(RUNTIME_KEYS, mine, strict=True):
            tally.add(as_torch_prints(cell), real.get(slot), f"{name} at {slot}")
    return tally.result()


def as_torch_prints(cell: Cell) -> TorchCell | None:
    """A cell in the words of PyTorch's dump; None for a missing one, which it does not print."""
    if cell.reason == AMBIGUOUS:
        return TorchCell("ambiguous_autogradother", cell.reason, False)
    if cell.kernel is None:
        return None
    return TorchCell(cell.kernel.debug, cell.reason, cell.kernel.is_fallthrough)


def _schemas(names: list[str]) -> Comparison:
    tally = Tally("schemas that parse and print back equal")
    for name in names:
        text = torch_tables.schema_text(name)
        try:
            printed = str(parse_schema(text))
        except SchemaError as error:
            printed = f"SchemaError: {error}"
        tally.add(printed, text, name)
    return tally.result()


def slots_that_exist() -> tuple[DispatchKey, ...]:
    """The runtime keys both sides have."""
    return tuple(key for key in RUNTIME_KEYS if key not in layout().absent)
