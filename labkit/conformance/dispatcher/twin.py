"""One operator, defined in both dispatchers, with each registration removable on its own.

A registration on PyTorch's side gets a library of its own: resetting that library removes it and
nothing else, which torch.library cannot do.
"""

from collections.abc import Callable
from typing import Any

import torch

from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch import torch_tables
from labkit.dispatch.dispatcher import Dispatcher, Rule, Undo
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.operator import slots_updated
from labkit.dispatch.schema_parser import parse_schema
from labkit.dispatch.torch_keys import torch_key

_C: Any = torch._C
NAMESPACE = "labkit_conformance"


class World:
    """labkit's half: a dispatcher with PyTorch's global fallbacks and nothing else.

    rule   which cells a registration stores again
    """

    def __init__(self, rule: Rule = slots_updated) -> None:
        self.dispatcher = Dispatcher(bare=True, slots_updated=rule)
        self.dispatcher.fallbacks = torch_tables.global_fallbacks()


class Twin:
    """The same operator in a labkit dispatcher and in PyTorch's.

    name     base name, unique in the process
    schema   from the opening parenthesis on
    defined  define it now; else `define` does
    """

    def __init__(self, world: World, name: str, schema: str, *, defined: bool = True) -> None:
        self.world = world
        self.full_name = f"{NAMESPACE}::{name}"
        self._name = name
        self._schema = f"{name}{schema}"
        self._undo: dict[int, tuple[Undo, Any]] = {}
        self._count = 0
        self._torch_library: Any = None
        if defined:
            self.define()

    def define(self) -> None:
        """Both have the schema."""
        parsed = parse_schema(f"{NAMESPACE}::{self._schema}")
        self._undo_def = self.world.dispatcher.register_def(parsed, "")
        self._torch_library = _library("FRAGMENT", NAMESPACE, "definition", 0)
        self._torch_library.define(self._schema, "")
        self.handle = _C._dispatch_find_schema_or_throw(self.full_name, "")

    @property
    def is_defined(self) -> bool:
        """True once both have the schema."""
        return self._torch_library is not None

    @property
    def op(self) -> Any:
        """The operator of labkit's half."""
        return self.world.dispatcher.operators[self.full_name]

    def register(
        self,
        key: DispatchKey,
        mine: Callable[..., Any] | None,
        real: Callable[..., Any] | None,
        *,
        with_keyset: bool = False,
    ) -> int:
        """Both have a new kernel at the key (None: a fallthrough); returns its number."""
        number, self._count = self._count, self._count + 1
        debug = f"registered at {self._name}:{number}"
        form = "unboxed" if mine is not None else "fallthrough"
        kernel = Kernel(mine, debug, form, with_keyset)  # type: ignore[arg-type]
        undo = self.world.dispatcher.register_impl(self.full_name, key, kernel)
        library = _library("IMPL", NAMESPACE, self._name, number)
        skip = torch.library.fallthrough_kernel
        library.impl(self._name, torch_key(key), skip if real is None else real, with_keyset)
        self._undo[number] = (undo, library)
        return number

    @property
    def alive(self) -> list[int]:
        """Numbers of the registrations that still stand."""
        return list(self._undo)

    def remove(self, number: int) -> None:
        """Neither has the registration any more."""
        undo, library = self._undo.pop(number)
        undo()
        library.reset()

    def close(self) -> None:
        """Neither has the operator."""
        for number in self.alive:
            self.remove(number)
        if self._torch_library is not None:
            self._undo_def()
            self._torch_library.reset()


def _library(kind: str, namespace: str, file: str, line: int) -> Any:
    return _C._dispatch_library(kind, namespace, "", file, line)


class TwinFallback:
    """A fallthrough as global fallback of a key nobody else uses, on both sides."""

    def __init__(self, world: World, key: DispatchKey) -> None:
        kernel = Kernel(None, "registered at twin fallback:0", "fallthrough")
        self._undo = world.dispatcher.register_fallback(key, kernel)
        self._library = _library("IMPL", "_", "twin fallback", 0)
        self._library.fallback(torch_key(key), torch.library.fallthrough_kernel, False)

    def close(self) -> None:
        """Neither has the fallback."""
        self._undo()
        self._library.reset()
