"""Python as a layer: an active mode is asked what to do with every call.

The key sits below autograd, so a mode sees what composites are made of, and no gradients.

Source   aten/src/ATen/core/PythonFallbackKernel.cpp; torch/utils/_python_dispatch.py
"""

from dataclasses import replace
from typing import Any

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.thread_local_state import CarriedLocal
from labkit.dispatch import tls
from labkit.dispatch.layer_keys import ABOVE_PYTHON, MODE_KEYS
from labkit.dispatch.layers.layer import declares, put_results
from labkit.dispatch.library import Library
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.situation import Next, Situation


class _Modes(CarriedLocal):
    def __init__(self) -> None:
        super().__init__()
        self.stack: list[DispatchMode] = []


_MODES = _Modes()
_BELOW_SNAPSHOT = DispatchKeySet.full_after(DispatchKey.PythonTLSSnapshot)


class DispatchMode:
    """Inside the `with`, every call of an operator comes to `dispatch` once.

    Source   torch/utils/_python_dispatch.py  TorchDispatchMode
    """

    def dispatch(self, op: OperatorHandle, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the call returns; this one passes it on. Override it."""
        return op(*args, **kwargs)

    def __enter__(self) -> "DispatchMode":
        _MODES.stack.append(self)
        self._guard = tls.IncludeDispatchKeyGuard(MODE_KEYS)
        self._guard.__enter__()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._guard.__exit__()
        _MODES.stack.pop()


def active_modes() -> int:
    """How many modes this thread is inside of."""
    return len(_MODES.stack)


def contract(keys: DispatchKeySet, now: Situation) -> Next:
    """If the mode passes the call on, it goes on without everything above Python."""
    left = max(now.modes - 1, 0)
    inside = replace(
        now,
        included=now.included if left else now.included - MODE_KEYS,
        excluded=now.excluded | ABOVE_PYTHON,
        modes=left,
    )
    text = "hands the call to the mode; if that calls the operator, it goes on below Python"
    return Next("call", text, situation=inside, assumed=True)


@declares(contract)
def kernel(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
    """Ask the innermost mode, with that mode set aside and everything above Python excluded.

    Raises   RuntimeError   the Python key was reached and no mode is active
    """
    if not _MODES.stack:
        raise RuntimeError(f"{op.name} reached the Python key, but no mode is active")
    mode = _MODES.stack.pop()
    included = tls.included() if _MODES.stack else tls.included() - MODE_KEYS
    positional = op.schema.positional_count
    names = [argument.name for argument in op.schema.arguments[positional:]]
    keywords = dict(zip(names, stack[positional:], strict=True))
    try:
        with tls.ForceDispatchKeyGuard(included, tls.excluded() | ABOVE_PYTHON):
            put_results(stack, mode.dispatch(op, tuple(stack[:positional]), keywords))
    finally:
        _MODES.stack.append(mode)


def snapshot_contract(keys: DispatchKeySet, now: Situation) -> Next:
    """Redispatches below itself."""
    return Next("redispatch", "redispatches below itself", keys & _BELOW_SNAPSHOT, now)


@declares(snapshot_contract)
def snapshot(op: Any, keys: DispatchKeySet, stack: list[Any]) -> None:
    """Pass the call on.

    Differs  PyTorch saves the thread's sets here, to restore them for the mode.
    """
    put_results(stack, op.redispatch_boxed(keys & _BELOW_SNAPSHOT, stack))


def install(library: Library) -> None:
    """Modes work for every operator."""
    library.fallback(kernel, DispatchKey.Python)
    library.fallback(snapshot, DispatchKey.PythonTLSSnapshot)
