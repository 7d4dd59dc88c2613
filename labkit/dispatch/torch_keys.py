"""labkit's key sets and the installed PyTorch's, translated both ways.

The two use the same words on 2.13. Another release may lack a key (2.11 has no `Fake`), which
moves every later bit: the translation goes by name, so the rest still compares.

Source   torch._C._dispatch_key_name, torch._C.DispatchKeySet
"""

from functools import cache
from typing import Any, NamedTuple

import torch

from labkit.core.dispatch_key import BACKENDS, FUNCTIONALITIES, DispatchKey
from labkit.core.dispatch_key_set import BACKEND_MASK, NUM_BACKENDS, DispatchKeySet, keyset

_C: Any = torch._C


class Layout(NamedTuple):
    """How the installed PyTorch numbers its keys.

    functionalities  its functionality names, weakest first, without Undefined
    absent           keys labkit has and it has not
    unknown          keys it has and labkit has not: their bits are dropped when reading
    """

    functionalities: tuple[str, ...]
    absent: tuple[DispatchKey, ...]
    unknown: tuple[str, ...]


@cache
def layout() -> Layout:
    """The installed PyTorch's key list.

    Raises   RuntimeError   its backends are not the sixteen labkit knows
    """
    names: list[str] = []
    while (name := _C._dispatch_key_name(_C.DispatchKey(len(names)))) != "UnknownUnknown":
        names.append(name)
    first = len(names) + 2  # after the end marker and the marker of the dense keys
    backends = tuple(_C._dispatch_key_name(_C.DispatchKey(first + i)) for i in range(NUM_BACKENDS))
    if backends != BACKENDS:
        raise RuntimeError(
            f"torch {torch.__version__} has backends {backends}, labkit has {BACKENDS}"
        )
    known = {key.name for key in FUNCTIONALITIES}
    return Layout(
        tuple(names[1:]),
        tuple(key for key in FUNCTIONALITIES if key.name not in names),
        tuple(name for name in names[1:] if name not in known),
    )


@cache
def is_same_layout() -> bool:
    """True when a word means the same set to both."""
    return layout().functionalities == tuple(key.name for key in FUNCTIONALITIES)


def from_torch(keys: Any) -> DispatchKeySet:
    """The labkit set for a `torch._C.DispatchKeySet`; keys labkit does not know are left out."""
    raw: int = keys.raw_repr()
    return keyset(raw) if is_same_layout() else _translated_from(raw)


def to_torch(keys: DispatchKeySet) -> Any:
    """PyTorch's set for a labkit set.

    Raises   ValueError   it holds a key the installed PyTorch lacks
    """
    raw = keys.raw if is_same_layout() else _translated_to(keys)
    return _C.DispatchKeySet.from_raw_repr(raw)


def _translated_from(raw: int) -> DispatchKeySet:
    result = raw & BACKEND_MASK
    for number, name in enumerate(layout().functionalities):
        if raw >> (NUM_BACKENDS + number) & 1 and name not in layout().unknown:
            result |= 1 << (NUM_BACKENDS + DispatchKey[name] - 1)
    return keyset(result)


def _translated_to(keys: DispatchKeySet) -> int:
    result = keys.raw & BACKEND_MASK
    for key in keys.functionalities():
        if key in layout().absent:
            raise ValueError(f"torch {torch.__version__} has no dispatch key {key}")
        result |= 1 << (NUM_BACKENDS + layout().functionalities.index(key.name))
    return result


def torch_number(key: DispatchKey) -> int:
    """The number of a key in the installed PyTorch's enum.

    Raises   ValueError   it has no such key
    """
    if key <= DispatchKey.PythonDispatcher:
        if key is DispatchKey.Undefined:
            return 0
        if key in layout().absent:
            raise ValueError(f"torch {torch.__version__} has no dispatch key {key}")
        return layout().functionalities.index(key.name) + 1
    return key + len(layout().functionalities) - len(FUNCTIONALITIES)


def torch_key(key: DispatchKey) -> Any:
    """The `torch._C.DispatchKey`, also for the 42 keys whose name PyTorch cannot parse."""
    return _C.DispatchKey(torch_number(key))


def included() -> DispatchKeySet:
    """What PyTorch includes on the calling thread."""
    return from_torch(_C._dispatch_tls_local_include_set())


def excluded() -> DispatchKeySet:
    """What PyTorch excludes on the calling thread."""
    return from_torch(_C._dispatch_tls_local_exclude_set())


def key_set_of_tensor(tensor: torch.Tensor) -> DispatchKeySet:
    """The key set PyTorch keeps for a tensor."""
    return from_torch(_C._dispatch_keys(tensor))
