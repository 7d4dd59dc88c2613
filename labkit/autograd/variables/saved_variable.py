"""A tensor kept for backward, with the version of its elements that backward needs.

Source   torch/csrc/autograd/saved_variable.h  SavedVariable
"""

import weakref
from collections.abc import Callable
from typing import Any

from labkit.autograd.grad_mode import no_grad
from labkit.autograd.node import Node
from labkit.autograd.state import ANOMALY, STATE
from labkit.autograd.variables import variable
from labkit.autograd.variables.meta import AutogradMeta
from labkit.core.tensor_impl import TensorImpl

BACKWARD_TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you "
    "call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
    "through the graph a second time or if you need to access saved tensors after calling "
    "backward."
)
_INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference mode in computation tracked by autograd. To work around this, you can make a clone "
    "to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
    "`torch.inference_mode()`."
)
_DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is "
    "not supported, please use out-of-place `.detach()` instead"
)

PackHooks = tuple[Callable[[Any], Any], Callable[[Any], Any]]


UNPACK_OBSERVERS: list[Callable[[Node | None, TensorImpl, int], None]] = []
"""Told of every unpacking: the node, the tensor, the version it had when it was saved."""


def _was_detached_since(tensor: TensorImpl, node: Node) -> bool:
    """The tensor lost its history, in place, after the node was made."""
    meta = tensor.autograd_meta
    return meta is not None and node.sequence_nr < meta.detached_at


class SavedVariable:
    """What one node keeps of one tensor; `unpack` gives the tensor back, or says why it cannot.

    An input is kept as it is. An output is kept without its history: its `grad_fn` is the very
    node that keeps it, and the two would hold each other for ever.

    Source   torch/csrc/autograd/saved_variable.h  SavedVariable
    """

    data: TensorImpl | None
    version: int
    is_original = True
    """`data` is the tensor itself."""
    is_leaf = False
    is_output = False
    requires_grad = False
    output_nr = 0
    edge: Any = None
    """Of an input that a hook has packed: its own edge, since the tensor is not kept."""
    accumulator: Any = None
    hooks: PackHooks | None = None
    packed: Any = None
    written_node: Callable[[], Node | None] | None = None
    """Of a view that was written: its regenerated `grad_fn`, held weakly."""

    def unpack(self, saved_for: Node | None = None) -> TensorImpl:
        """The tensor, with its history.

        saved_for  the node that keeps it

        Raises   RuntimeError   it was released, or its elements were written since
        Source   torch/csrc/autograd/saved_variable.cpp  SavedVariable::unpack
        """
        data = self.data
        if data is None:
            if self.hooks is None:
                raise RuntimeError(BACKWARD_TWICE)
            return self._rebuild(saved_for)
        if self.is_original and saved_for is not None and _was_detached_since(data, saved_for):
            raise RuntimeError(_DETACHED)
        for observer in UNPACK_OBSERVERS:
            observer(saved_for, data, self.version)
        if not self.is_as_saved(data):
            raise self._written(data, saved_for)
        return data if self.is_original else self._rebuild(saved_for)

    def is_as_saved(self, data: TensorImpl) -> bool:
        """Nobody has written the elements since."""
        return data.version == self.version

    def _rebuild(self, saved_for: Node | None) -> TensorImpl:
        edge = self._edge(saved_for)
        if self.hooks is None:
            assert self.data is not None
            data = self.data
        else:
            unpacked = self.hooks[1](self.packed)
            if not isinstance(unpacked, TensorImpl):
                raise TypeError(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of "
                    f"type {type(unpacked).__name__}"
                )
            data = unpacked
        if edge is None and not self.requires_grad and not variable.requires_grad(data):
            return data
        result = data.shallow_copy_and_detach(data.version_counter)
        result.autograd_meta = meta = AutogradMeta()
        if edge is not None:
            meta.edge = edge
        else:
            meta.requires_grad = self.requires_grad
            if self.accumulator is not None:
                meta.accumulator = weakref.ref(self.accumulator)
        return result

    def _edge(self, saved_for: Node | None) -> Any:
        if self.is_leaf:
            return None
        if self.edge is not None:
            return self.edge
        if self.written_node is not None:
            node = self.written_node()
            if node is not None:
                return node, self.output_nr
        if saved_for is None:
            raise RuntimeError(_DETACHED)
        return saved_for, self.output_nr

    def _written(self, data: TensorImpl, saved_for: Node | None) -> RuntimeError:
        """The error that names the tensor, and who made it."""
        made_by: Node | None
        if self.is_original:
            made_by = variable.grad_fn(data)
        else:
            edge = self._edge(saved_for)
            made_by = edge and edge[0]
        number = variable.output_nr(data) if self.is_original else self.output_nr
        who = f", which is output {number} of {made_by.forward_name()}," if made_by else ""
        hint = (
            "the backtrace further above shows the operation that failed to compute its gradient. "
            "The variable in question was changed in there or anywhere later. Good luck!"
            if ANOMALY.enabled
            else "enable anomaly detection to find the operation that failed to compute its "
            "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )
        return RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{type_name(data)} {list(data.sizes)}]{who} is at version "
            f"{data.version}; expected version {self.version} instead. Hint: {hint}"
        )

    def _keep_metadata(self, tensor: TensorImpl) -> None:
        self.output_nr = variable.output_nr(tensor)
        if self.is_leaf:
            self.requires_grad = variable.requires_grad(tensor)
            if self.requires_grad:
                self.accumulator = variable.grad_accumulator(tensor)
        elif not self.is_output:
            self.edge = variable.edge_of_history(tensor)

    def _pack(self, tensor: TensorImpl, hooks: PackHooks) -> None:
        self.hooks = hooks
        before, shown = tensor.version, tensor
        if self.is_original and tensor.autograd_meta is not None:
            shown = tensor.shallow_copy_and_detach(tensor.version_counter)
        with no_grad():
            self.packed = hooks[0](shown)
        if tensor.version != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook cannot be modified by in-place operations as this can lead "
                "to unexpected side-effects. Please open an issue if you need to perform in-place "
                "operations on the input to a pack hook."
            )
        self.data = None

    def release(self) -> None:
        """The tensor is not kept any more.

        Source   torch/csrc/autograd/saved_variable.cpp  SavedVariable::reset_data
        """
        self.data = None
        if self.hooks is not None:
            self.hooks = self.packed = self.edge = self.accumulator = None


def save(tensor: TensorImpl | None) -> SavedVariable | None:
    """An input, kept for backward; None for no tensor.

    Raises   RuntimeError   a tensor made in inference mode, which counts no versions
    """
    if tensor is None:
        return None
    if variable.is_inference(tensor):
        raise RuntimeError(_INFERENCE)
    saved = SavedVariable()
    saved.data = tensor
    saved.version = tensor.version
    if STATE.saved_hooks and not tensor.is_wrapped_number:
        saved.is_leaf = variable.is_leaf(tensor)
        saved._keep_metadata(tensor)
        saved.is_original = False
        saved._pack(tensor, STATE.saved_hooks[-1])
    return saved


def save_output(tensor: TensorImpl | None, is_written_view: bool = False) -> SavedVariable | None:
    """An output of the node, kept for its own backward; its history must be set already.

    is_written_view  the output is a view that the call wrote: its `grad_fn` is not the node

    Raises   RuntimeError   a tensor made in inference mode
    """
    if tensor is None:
        return None
    if variable.is_inference(tensor):
        raise RuntimeError(_INFERENCE)
    saved = SavedVariable()
    saved.version = tensor.version
    saved.is_output = True
    edge = variable.edge_of_history(tensor)
    if edge is None:
        saved.is_leaf = True
    else:
        saved.is_original = False
        saved.output_nr = edge[1]
        if is_written_view:
            saved.written_node = weakref.ref(edge[0])
    saved.data = tensor
    if STATE.saved_hooks and not tensor.is_wrapped_number:
        if saved.is_leaf:
            saved._keep_metadata(tensor)
        saved.is_original = False
        saved._pack(tensor, STATE.saved_hooks[-1])
    elif not saved.is_leaf:
        saved.data = tensor.shallow_copy_and_detach(tensor.version_counter)
    return saved


_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    "complex32": "ComplexHalf",
}  # fmt: skip


def type_name(tensor: TensorImpl) -> str:
    """PyTorch's name of the kind of tensor: torch.FloatTensor, torch.cuda.LongTensor.

    Source   torch/csrc/utils/tensor_types.cpp  type_to_string
    """
    place = "" if tensor.device.type == "cpu" else f"{tensor.device.type}."
    name = tensor.dtype.name
    return f"torch.{place}{_NAMES.get(name, name.capitalize())}Tensor"
