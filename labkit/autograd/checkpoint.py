"""Checkpointing: forward keeps the inputs only, and backward computes the rest again.

Source   torch/utils/checkpoint.py
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from labkit.autograd.grad_mode import enable_grad
from labkit.autograd.graph import saved_tensors_hooks
from labkit.autograd.state import STATE
from labkit.autograd.variables.saved_variable import SavedVariable, save
from labkit.core.device import CPU
from labkit.core.generator import default_generator
from labkit.core.tensor_impl import TensorImpl


class CheckpointError(RuntimeError):
    """The second computation was not like the first.

    Source   torch/utils/checkpoint.py  CheckpointError
    """


class _StopRecomputation(Exception):
    """All tensors that backward needs have been computed again."""


class _RandomState:
    """The states of the generators that a computation on these arguments uses."""

    def __init__(self, args: Sequence[Any]) -> None:
        devices = {arg.device for arg in args if isinstance(arg, TensorImpl)} | {CPU}
        self.states = {device: default_generator(device).state_bytes() for device in devices}

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Inside the `with`, the generators are as they were; after it, as they are now."""
        now = {device: default_generator(device).state_bytes() for device in self.states}
        for device, state in self.states.items():
            default_generator(device).load_state_bytes(state)
        try:
            yield
        finally:
            for device, state in now.items():
                default_generator(device).load_state_bytes(state)


class _Holder:
    """Stands in a node for a tensor that will be computed again."""

    __slots__ = ("__weakref__",)


class _Frame:
    """One checkpointed call.

    holders      one per tensor that the first computation saved, held weakly
    recomputed   backward call -> holder -> tensor; a tensor goes with its holder

    Source   torch/utils/checkpoint.py  _CheckpointFrame
    """

    def __init__(self, recompute: Callable[..., Any], args: Sequence[Any]) -> None:
        self.recompute = recompute
        self.args = [save(arg) if isinstance(arg, TensorImpl) else arg for arg in args]
        self.holders: list[weakref.ref[_Holder]] = []
        self.looks: list[Any] = []
        self.recomputed: weakref.WeakKeyDictionary[
            Any, weakref.WeakKeyDictionary[_Holder, TensorImpl]
        ] = weakref.WeakKeyDictionary()

    def pack(self, tensor: TensorImpl) -> _Holder:
        """Keep what the tensor looks like, and not the tensor."""
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        self.looks.append(_look(tensor))
        return holder

    def unpack(self, holder: _Holder) -> TensorImpl:
        """The tensor, computed again if this backward call has not done so."""
        task = STATE.task if STATE.task is not None else _Holder()
        if task not in self.recomputed:
            self._recompute(task)
        tensors = self.recomputed[task]
        if holder not in tensors:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already "
                "unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do "
                "so only once. Otherwise please open an issue with details on your use case."
            )
        return tensors.pop(holder)

    def _recompute(self, task: Any) -> None:
        tensors: weakref.WeakKeyDictionary[_Holder, TensorImpl] = weakref.WeakKeyDictionary()
        looks: list[Any] = []

        def pack(tensor: TensorImpl) -> TensorImpl:
            number = len(looks)
            looks.append(_look(tensor))
            kept = tensor.shallow_copy_and_detach(tensor.version_counter)
            if number < len(self.holders):
                holder = self.holders[number]()
                if holder is not None:
                    tensors[holder] = kept
            else:
                raise _more_saved(len(self.holders), number + 1)
            if len(looks) == len(self.holders):
                raise _StopRecomputation
            return kept

        args = [arg.unpack() if isinstance(arg, SavedVariable) else arg for arg in self.args]
        try:
            with saved_tensors_hooks(pack, lambda tensor: tensor), enable_grad():
                self.recompute(*args)
        except _StopRecomputation:
            pass
        if len(looks) != len(self.holders):
            raise _more_saved(len(self.holders), len(looks))
        self._compare(looks)
        self.recomputed[task] = tensors

    def _compare(self, looks: list[Any]) -> None:
        """Source   torch/utils/checkpoint.py  check_recomputed_tensors_match."""
        lines = [
            f"tensor at position {i}:\nsaved metadata: {before}\nrecomputed metadata: {now}\n"
            for i, (before, now) in enumerate(zip(self.looks, looks, strict=True))
            if before != now and self.holders[i]() is not None
        ]
        if lines:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                f"different metadata than during the forward pass.\n{''.join(lines)}."
            )


def _look(tensor: TensorImpl) -> dict[str, Any]:
    return {"shape": list(tensor.sizes), "dtype": tensor.dtype, "device": tensor.device}


def _more_saved(before: int, now: int) -> CheckpointError:
    return CheckpointError(
        "torch.utils.checkpoint: A different number of tensors was saved during the original "
        f"forward and recomputation.\nNumber of tensors saved during forward: {before}\nNumber of "
        f"tensors saved during recomputation: {now}."
    )


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, keeping for backward what went in and nothing between.

    The second computation draws the same random numbers, and ends when all that is needed is there.

    use_reentrant   False: saved tensors are computed again when the first of them is asked for

    Raises   NotImplementedError   use_reentrant=True, PyTorch's older way
             CheckpointError       (in backward) the second computation was not like the first
    Source   torch/utils/checkpoint.py  checkpoint
    Differs  PyTorch's options for the second computation are not there
    """
    if use_reentrant:
        raise NotImplementedError("checkpoint(use_reentrant=True): labkit has the other way, False")
    if not STATE.grad:
        return function(*args, **kwargs)
    random = _RandomState(args)

    def recompute(*again: Any) -> None:
        with random.again():
            function(*again, **kwargs)

    frame = _Frame(recompute, args)
    with saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)
