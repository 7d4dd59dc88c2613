"""What is written down of a kernel that is entered, and who writes it.

Source   aten/src/ATen/core/dispatch/Dispatcher.h  show_dispatch_trace
Differs  PyTorch prints this in debug builds only, and to stderr.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from labkit.core.dispatch_key import RUNTIME_KEYS, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet, keyset
from labkit.dispatch import tls
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.described import describe
from labkit.dispatch.table import Cell


@dataclass
class KernelRun:
    """One kernel that was entered.

    operator  full name
    via       how it was reached; None where a recording cannot know
    slot      the slot that was chosen
    keys      the key set the kernel got
    kernel    where the kernel was registered
    depth     0 for the outermost kernel of the recording
    included, excluded  the thread's sets when it was entered
    tensors   the key set of each tensor argument, in order, lists flattened
    met       the same tensors in words
    raised    the error that left the kernel, if one did
    """

    operator: str
    via: Literal["call", "redispatch"] | None
    slot: DispatchKey
    keys: DispatchKeySet
    kernel: str
    depth: int
    included: DispatchKeySet
    excluded: DispatchKeySet
    tensors: list[DispatchKeySet]
    met: list[str]
    raised: str | None = None


class Recorder:
    """Collects the kernels entered on the thread that made it."""

    def __init__(self) -> None:
        self.runs: list[KernelRun] = []
        self._depth = 0
        self._thread = threading.get_ident()

    def wrap(
        self,
        operator: str,
        slot: int,
        cell: Cell,
        bits: int,
        via: Literal["call", "redispatch"],
        kernel: Callable[..., Any],
    ) -> Callable[..., Any]:
        """The kernel, noting each time it is entered."""

        def entered(*args: Any, **kwargs: Any) -> Any:
            if not self.is_on_its_thread:
                return kernel(*args, **kwargs)
            run = KernelRun(
                operator, via, RUNTIME_KEYS[slot], keyset(bits),
                cell.kernel.debug if cell.kernel else "", self._depth,
                tls.included(), tls.excluded(), *tensors_in((*args, *kwargs.values())),
            )  # fmt: skip
            with self.note(run):
                return kernel(*args, **kwargs)

        return entered

    @contextmanager
    def note(self, run: KernelRun) -> Iterator[None]:
        """The run is in the list, with the error that leaves the block, if one does."""
        self.runs.append(run)
        self._depth += 1
        try:
            yield
        except BaseException as error:
            run.raised = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise
        finally:
            self._depth -= 1

    @property
    def is_on_its_thread(self) -> bool:
        """False on every thread but the one that records."""
        return threading.get_ident() == self._thread

    @property
    def depth(self) -> int:
        """How many noted kernels are running now."""
        return self._depth


def tensors_in(values: tuple[Any, ...]) -> tuple[list[DispatchKeySet], list[str]]:
    """The key set of every tensor, and the tensor in words; lists flattened."""
    key_sets, words = [], []
    for value in values:
        for item in value if isinstance(value, list | tuple) else (value,):
            keys = key_set_of(item)
            if keys is not None:
                key_sets.append(keys)
                words.append(describe(item))
    return key_sets, words
