"""The graph of a labkit program: each call that its dispatcher gets from outside is a node."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

import labkit as lab
from labkit import nn
from labkit.core.dtype import DType
from labkit.core.formats import decode
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.dispatcher import dispatcher
from labkit.dispatch.recorder import Recorder
from labkit.ops.aten import aten


def capture_labkit(
    program: Callable[..., Any], inputs: Sequence[TensorImpl], names: Sequence[str]
) -> GraphModule:
    """The operators that `program(*inputs)` calls, under PyTorch's names.

    names  of the inputs

    Parameters, and other tensors from outside, share their memory with labkit's.

    Raises   ValueError            a tensor is on a device
             NotImplementedError   an operator that PyTorch has not got
    """
    own: dict[str, Any] = {}
    if isinstance(program, nn.Module):
        own = {**dict(program.named_parameters()), **dict(program.named_buffers())}
    writer = _Writer({id(one): name.replace(".", "_") for name, one in own.items()})
    for name, one in zip(names, inputs, strict=False):
        _check_on_host(one)
        writer.makes(writer.graph.placeholder(name), one)
    where = dispatcher()
    before = where.recorder
    where.set_recorder(writer)
    try:
        with lab.no_grad():
            result = program(*inputs)
    finally:
        where.set_recorder(before)
    writer.graph.output(writer.argument(result))
    return GraphModule(writer.attributes, writer.graph)


class _Writer(Recorder):
    """Writes a node for every kernel that is entered from outside, not for those it enters."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()
        self.graph, self.names = Graph(), names
        self.attributes: dict[str, torch.Tensor] = {}
        self._known: dict[int, tuple[Any, Node]] = {}  # with the tensor: its id stays its own

    def wrap(self, name: str, slot: int, cell: Any, bits: int, via: Any, kernel: Any) -> Any:
        """The kernel, written down when nobody else's is running."""

        def entered(*args: Any, **kwargs: Any) -> Any:
            if self._depth or not self.is_on_its_thread:
                return kernel(*args, **kwargs)
            self._depth += 1
            try:
                node = self._call(name, args, kwargs)
                result = kernel(*args, **kwargs)
            finally:
                self._depth -= 1
            self.makes(node, result)
            return result

        return entered

    def _call(self, name: str, args: Any, kwargs: Any) -> Node:
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, namespace), base, None)
        target = getattr(packet, overload or "default", None)
        if target is None:
            raise NotImplementedError(f"PyTorch has no operator {name}")
        given = {key: self.argument(value) for key, value in kwargs.items() if value is not None}
        return self.graph.create_node(
            "call_function", target, tuple(map(self.argument, args)), given, name=base
        )

    def makes(self, node: Node, result: Any) -> None:
        """The node stands for the result from now on; for a tuple there is a node for each part."""
        if isinstance(result, list | tuple):
            for place, part in enumerate(result):
                self.makes(self.graph.call_function(operator.getitem, (node, place)), part)
        elif isinstance(result, TensorImpl):
            node.meta["val"] = torch.empty_strided(
                result.sizes, result.strides, dtype=_dtype(result.dtype), device="meta"
            )
            self._known[id(result)] = result, node

    def argument(self, value: Any) -> Any:
        """The value as a graph's node has it: a node for a tensor."""
        if isinstance(value, list | tuple):
            return type(value)(map(self.argument, value))
        if isinstance(value, DType):
            return _dtype(value)
        if not isinstance(value, TensorImpl):
            return value
        if value.is_wrapped_number:
            return decode(value.raw(), value.dtype).item()
        if id(value) not in self._known:
            self._known[id(value)] = value, self._attribute(value)
        return self._known[id(value)][1]

    def _attribute(self, tensor: TensorImpl) -> Node:
        _check_on_host(tensor)
        name = self.names.get(id(tensor), f"constant_{len(self.attributes)}")
        self.attributes[name] = torch.from_dlpack(aten.detach.default(tensor))
        node = self.graph.get_attr(name)
        node.meta["val"] = self.attributes[name]
        return node


def _check_on_host(tensor: TensorImpl) -> None:
    if tensor.device.type != "cpu":
        raise ValueError(f"capture reads programs on the host; a tensor is on {tensor.device}")


def _dtype(dtype: DType) -> torch.dtype:
    found = getattr(torch, dtype.name)
    assert isinstance(found, torch.dtype)
    return found
