"""Modules that hold modules: in a row, in a list, by name.

Source   torch/nn/modules/container.py
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from labkit.nn.module import Module


class _Numbered(Module):
    """Modules whose names are their places."""

    def append(self, module: Module) -> Self:
        """The module is the last one."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """The modules are the last ones."""
        for module in modules:
            self.append(module)
        return self

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, place: int | slice) -> Any:
        made: Any = type(self)
        chosen = list(self._modules.items())[place]
        return made(OrderedDict(chosen)) if isinstance(chosen, list) else chosen[1]


class Sequential(_Numbered):
    """Modules one after the other; an OrderedDict gives them names."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = isinstance(modules[0], OrderedDict) if len(modules) == 1 else False
        for name, module in modules[0].items() if named else enumerate(modules):
            self.add_module(str(name), module)

    def forward(self, x: Any) -> Any:
        """What the last module makes of what the one before made."""
        for module in self.children():
            x = module(x)
        return x


class ModuleList(_Numbered):
    """Modules in a list, called by whoever holds it."""

    def __init__(self, modules: Iterable[Module] | Mapping[str, Module] = ()) -> None:
        super().__init__()
        self.extend(modules.values() if isinstance(modules, Mapping) else modules)


class ModuleDict(Module):
    """Modules by name, called by whoever holds it."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """These modules, too, have these names."""
        for name, module in modules.items():
            self.add_module(name, module)

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._modules.items()
