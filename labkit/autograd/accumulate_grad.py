"""The node at the end of every path: it adds what arrives to a leaf's `grad`.

Source   torch/csrc/autograd/functions/accumulate_grad.h  AccumulateGrad
"""

import sys
from typing import Any

from labkit.autograd.handles import Hooks
from labkit.autograd.meta import AutogradMeta
from labkit.autograd.node import ACCUMULATE_GRAD_PRIORITY, Node
from labkit.autograd.recording import ENGINE
from labkit.autograd.state import STATE
from labkit.core import memory_format
from labkit.core.strides import is_non_overlapping_and_dense
from labkit.core.tensor_impl import TensorImpl, empty_strided
from labkit.ops import copy
from labkit.ops.aten import aten


class AccumulateGrad(Node):
    """Holds its leaf; the leaf holds it weakly, so it goes with the last graph that uses it.

    Source   torch/csrc/autograd/functions/accumulate_grad.h  AccumulateGrad
    """

    sequence_nr = ACCUMULATE_GRAD_PRIORITY
    is_hooked = True  # its leaf may get hooks at any time
    only_reference = 3
    """References to a gradient nobody else holds: the input buffer's, `apply`'s, getrefcount's."""

    def __init__(self, variable: TensorImpl) -> None:
        self.variable = variable
        self.inputs = (variable.sizes, variable.dtype, variable.device)

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
        variable = self.variable
        meta = variable.autograd_meta
        if (meta.view_edge if meta.is_view else meta.edge) is not None and grads[0] is not None:
            raise RuntimeError("leaf variable has been moved into the graph interior")
        if grads[0] is not None and meta.requires_grad:
            self._accumulate(variable, meta, grads)
        _call_post_accumulate_hooks(variable, meta)  # even if nothing came, as in PyTorch
        return ()

    def _accumulate(self, variable: TensorImpl, meta: AutogradMeta, grads: list[Any]) -> None:
        grad = grads[0]
        held = meta.grad
        if held is None:
            unshared = sys.getrefcount(grad) <= self.only_reference
            meta.grad = self._first(variable, grad, unshared)
        elif not STATE.grad:
            aten.add_.Tensor(held, grad)
        else:
            meta.grad = aten.add.Tensor(held, grad)
        if ENGINE.recorder is not None:
            text = "set" if held is None else "added"
            value = ENGINE.recorder.value(meta.grad)
            ENGINE.recorder.note("accumulate", self, text=text, value=value)

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


def _call_post_accumulate_hooks(variable: TensorImpl, meta: AutogradMeta) -> None:
    if meta.post_accumulate_hooks:
        for hook in tuple(meta.post_accumulate_hooks.values()):
            result = hook(variable)
            if result is not None:
                raise RuntimeError(
                    "Tensor post accumulate grad hooks should return None; "
                    f"{hook!r} returned {type(result).__name__}"
                )
