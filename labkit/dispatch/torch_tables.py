"""What the installed PyTorch says about its own tables: registrations, cells, fallbacks.

PyTorch prints two texts per operator: the raw registrations, and a table it recomputes from
them for the occasion. Both are parsed into labkit's own words here.

Source   torch._C._dispatch_dump, torch._C._dispatch_dump_table
"""

import functools
import re
from typing import Any, NamedTuple

import torch

from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch.kernel import Kernel

_REGISTRATION = re.compile(
    r"(?P<key>\w+)(?:\[alias\])?(?P<inactive> \(inactive\))?: (?P<debug>.*?) :: "
    r"(?P<signature>.*) \[ (?P<flags>[\w ]*) \]"
)
_CELL = re.compile(r"(?P<key>\w+): (?P<fallthrough>fallthrough )?(?P<debug>.*) \[(?P<reason>.*)\]")
_C: Any = torch._C

LEFT_SINCE = frozenset({"Named"})
"""Keys that older releases print (2.11 does) and 2.13, which the tables here follow, has not."""


class Registration(NamedTuple):
    """One line of an operator's registrations, newest first per key.

    active     the newest of its key, the only one a table can see
    signature  the C++ types it was registered with, "(none)" for a Python kernel
    """

    key: DispatchKey
    kernel: Kernel
    active: bool
    signature: str


class TorchCell(NamedTuple):
    """A cell as PyTorch prints it."""

    debug: str
    reason: str
    fallthrough: bool


def operator_names() -> list[str]:
    """Every operator of the process, "aten::add.Tensor"; imports add to them."""
    return sorted(_C._dispatch_get_all_op_names())


def schema_text(name: str) -> str:
    """The operator's schema as PyTorch prints it.

    Raises   KeyError   the operator has kernels but no schema
    """
    for line in _C._dispatch_dump(name).splitlines():
        if line.startswith("schema: "):
            text: str = line.removeprefix("schema: ")
            return text
    raise KeyError(f"{name} has no schema")


def registrations(name: str) -> list[Registration]:
    """All kernels ever registered for an operator and still listed, inactive ones included."""
    return parse_registrations(_C._dispatch_dump(name))


def parse_registrations(dump: str) -> list[Registration]:
    """The registrations in a `_dispatch_dump` text.

    Raises   ValueError   a line that has flags but cannot be read
    """
    found = []
    for line in dump.splitlines():
        if not line.endswith("]") or line.startswith("schema: "):
            continue
        match = _REGISTRATION.fullmatch(line)
        if match is None:
            raise ValueError(f"cannot read the registration line {line!r}")
        form = "fallthrough" if "fallthrough" in match["flags"].split() else "unknown"
        kernel = Kernel(None, match["debug"], form)  # type: ignore[arg-type]
        if match["key"] in LEFT_SINCE:
            continue
        key = DispatchKey.parse(match["key"])
        found.append(Registration(key, kernel, match["inactive"] is None, match["signature"]))
    return found


def kernels_of(name: str) -> dict[DispatchKey, Kernel]:
    """Registration key -> active kernel of an operator of the installed PyTorch."""
    return {entry.key: entry.kernel for entry in registrations(name) if entry.active}


def table_of(name: str) -> dict[DispatchKey, TorchCell]:
    """The filled cells of the table PyTorch recomputes; empty slots are absent."""
    return parse_table(_C._dispatch_dump_table(name))


def parse_table(dump: str) -> dict[DispatchKey, TorchCell]:
    """The cells in a `_dispatch_dump_table` text.

    Raises   ValueError   a line that cannot be read
    """
    cells = {}
    for line in dump.splitlines():
        match = _CELL.fullmatch(line)
        if match is None:
            raise ValueError(f"cannot read the table line {line!r}")
        if match["key"] in LEFT_SINCE:
            continue
        cells[DispatchKey.parse(match["key"])] = TorchCell(
            match["debug"], match["reason"], match["fallthrough"] is not None
        )
    return cells


@functools.cache
def global_fallbacks() -> dict[DispatchKey, Kernel]:
    """Slot -> fallback kernel, read from the table of an operator that has a schema only.

    Differs  Read once per process, as PyTorch's own are installed when it is imported.
    """
    library = _C._dispatch_library("FRAGMENT", "labkit_probe", "", "labkit_probe", 0)
    library.define("bare(Tensor x) -> Tensor", "")
    cells = table_of("labkit_probe::bare")
    library.reset()
    return {
        slot: Kernel(None, cell.debug, "fallthrough" if cell.fallthrough else "unknown")
        for slot, cell in cells.items()
    }
