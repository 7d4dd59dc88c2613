"""Everything outside the table that decides where a call goes, and how a kernel changes it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from labkit.core.dispatch_key_set import DispatchKeySet


@dataclass(frozen=True)
class Situation:
    """What a call meets: its tensors and the state of its thread.

    tensors   (path, tensor) of every tensor argument, lists flattened: ("tensors[1]", t)
    included, excluded  the thread's key sets
    layers    functorch's layers, outermost first: (kind, included, excluded) with the sets that
              were in force when the call entered the layer, or None before it has
    modes     how many __torch_dispatch__ modes are active
    snapshot  the sets PythonTLSSnapshot saved for the mode to see
    """

    tensors: tuple[tuple[str, Any], ...]
    included: DispatchKeySet
    excluded: DispatchKeySet
    layers: tuple[tuple[str, DispatchKeySet | None, DispatchKeySet | None], ...] = ()
    modes: int = 0
    snapshot: tuple[DispatchKeySet, DispatchKeySet] | None = None

    def excluding(self, keys: DispatchKeySet) -> "Situation":
        """The same with more keys excluded."""
        return replace(self, excluded=self.excluded | keys)


@dataclass(frozen=True)
class Next:
    """What a kernel does about its own operator.

    kind       redispatch  runs the operator again with `keys`, as they are
               call        calls it afresh, in `situation`
               ends        computes, or calls other operators: this operator is done
               decides     its own code says; nobody outside can tell
    text       the contract in a sentence
    keys       the set of a redispatch
    situation  what later kernels of this operator meet
    assumed    this follows only if somebody's Python code passes the call on unchanged
    """

    kind: Literal["redispatch", "call", "ends", "decides"]
    text: str
    keys: DispatchKeySet | None = None
    situation: Situation | None = None
    assumed: bool = False


def flatten_tensors(
    names: Sequence[str], values: Sequence[Any], is_tensor: Any
) -> tuple[tuple[str, Any], ...]:
    """(path, tensor) for every tensor among named values, lists flattened."""
    found: list[tuple[str, Any]] = []
    for name, value in zip(names, values, strict=False):
        if is_tensor(value):
            found.append((name, value))
        elif isinstance(value, list | tuple):
            found += [(f"{name}[{i}]", item) for i, item in enumerate(value) if is_tensor(item)]
    return tuple(found)
