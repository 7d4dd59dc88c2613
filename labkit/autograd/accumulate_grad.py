"""The node at the end of every path: it adds what arrives to a leaf's `grad`.

Source   torch/csrc/autograd/functions/accumulate_grad.h  AccumulateGrad
"""

import sys
from collections.abc import Callable
from typing import Any

from labkit.autograd.handles import Hooks
from labkit.autograd.node import ACCUMULATE_GRAD_PRIORITY, Edge, InputMetadata, Node
from labkit.autograd.state import STATE
from labkit.core import memory_format
from labkit.core.strides import is_non_overlapping_and_dense
from labkit.core.tensor_impl import TensorImpl, empty_strided
from labkit.ops.aten import aten
from labkit.ops.tensors import copy


class AccumulateGrad(Node):
    """Holds its leaf; the leaf holds it weakly, so it goes with the last graph that uses it.

    Source   torch/csrc/autograd/functions/accumulate_grad.h  AccumulateGrad
    """

    sequence_nr = ACCUMULATE_GRAD_PRIORITY
    only_reference = 3
    """References to a gradient nobody else holds: the list's, `accumulate`'s, getrefcount's."""

    def __init__(
        self, variable: TensorImpl, edge_of_history: Callable[[TensorImpl], Edge | None]
    ) -> None:
        self.variable, self.edge_of_history = variable, edge_of_history
        self.input_metadata = (InputMetadata(variable.sizes, variable.dtype, variable.device),)

    @classmethod
    def name(cls) -> str:
        """As C++ prints it."""
        return "torch::autograd::AccumulateGrad"

    def tensor_hooks(self) -> list[tuple[Hooks, int]] | None:
        """The leaf's hooks, read now: the leaf may have got them after this node was made."""
        hooks = self.variable.autograd_meta.hooks
        return [(hooks, 0)] if hooks else None

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The leaf's `grad` is set, or has grown; then its post-accumulate hooks fire.

        Raises   RuntimeError   the leaf was written by a recorded call since
        """
        self.accumulate(grads)
        self.call_post_accumulate_hooks()  # even if nothing came, as in PyTorch
        return ()

    def accumulate(self, grads: list[Any]) -> None:
        """The leaf's `grad` is set, or has grown.

        grads   the gradient alone, in a list: the caller must hold it in no other way

        Raises   RuntimeError   the leaf was written by a recorded call since; it is a view made in
                                no_grad mode, and its elements were written
        """
        variable = self.variable
        meta = variable.autograd_meta
        grad = grads[0]
        if grad is None:
            return
        if self.edge_of_history(variable) is not None:
            raise RuntimeError("leaf variable has been moved into the graph interior")
        if not meta.requires_grad:
            return
        if meta.grad is None:
            unshared = sys.getrefcount(grad) <= self.only_reference
            meta.grad = self._first(variable, grad, unshared)
        elif not STATE.grad:
            aten.add_.Tensor(meta.grad, grad)
        else:
            meta.grad = aten.add.Tensor(meta.grad, grad)

    def call_post_accumulate_hooks(self) -> None:
        """Each has seen the leaf, with its gradient.

        Raises   RuntimeError   one returned something
        """
        leaf, task = self.variable, STATE.task  # no task where the node is called by hand
        for hook in tuple((leaf.autograd_meta.post_accumulate_hooks or {}).values()):
            result = task.call_hook(self, "post-accumulate", hook, leaf) if task else hook(leaf)
            if result is not None:
                raise RuntimeError(
                    "Tensor post accumulate grad hooks should return None; "
                    f"{hook!r} returned {type(result).__name__}"
                )

    def _first(self, variable: TensorImpl, grad: TensorImpl, unshared: bool) -> TensorImpl:
        """The gradient itself where it can be had, else a copy laid out like the leaf.

        Source   torch/csrc/autograd/functions/accumulate_grad.h  AccumulateGrad::accumulateGrad
                 torch/csrc/autograd/utils/grad_layout_contract.h  clone_obey_contract
        """
        dense = is_non_overlapping_and_dense(variable.sizes, variable.strides)
        wanted = variable.strides if dense else memory_format.contiguous_strides(variable.sizes)
        if not STATE.grad:
            if unshared and _same_layout(grad, wanted):
                return grad.shallow_copy_and_detach(grad.version_counter)
            result = empty_strided(grad.sizes, wanted, grad.dtype, grad.device)
            return copy.copy_(result, grad)
        if dense and grad.strides != wanted:
            result = aten.empty_strided.default(
                list(grad.sizes), list(wanted), dtype=grad.dtype, device=grad.device
            )
            return aten.copy_.default(result, grad)
        return aten.clone.default(grad)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def _same_layout(grad: TensorImpl, wanted: tuple[int, ...]) -> bool:
    """The strides agree wherever they matter: where there is more than one element."""
    pairs = zip(grad.sizes, grad.strides, wanted, strict=True)
    return all(mine == theirs for size, mine, theirs in pairs if size > 1)
