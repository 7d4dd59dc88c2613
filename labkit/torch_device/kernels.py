"""labkit's device kernels under PyTorch's operators, registered with torch.library.

For a structured operator the overload with outputs is registered and nothing else: PyTorch's own
functional and in-place forms find shape and type, make the output, and call that one. Operators
that are not structured have their functional and in-place forms registered each.

To add a kernel: write it for labkit (`labkit/ops/cuda`), and where it is not element-wise give its
PyTorch name a row in `WITH_OUTPUTS` or `AS_THEY_ARE`.

Source   torchgen/model.py  NativeFunctionsGroup.structured
"""

from collections.abc import Iterator
from typing import Any

import torch

from labkit.core.device import Device
from labkit.ops import all as operators  # noqa: F401  registers labkit's
from labkit.ops.cuda import copying
from labkit.ops.cuda.expressions import EXPRESSIONS
from labkit.ops.cuda.ranges import fill_range
from labkit.ops.cuda.registering import DEVICE_KERNELS
from labkit.ops.pointwise.pointwise import ON_DEVICES, OPERATORS, wrapped_number
from labkit.ops.random import device_distributions
from labkit.torch_device import autocast
from labkit.torch_device.copies import Copies
from labkit.torch_device.fallback import on_the_host
from labkit.torch_device.recurrent import CELLS
from labkit.torch_device.serving import Function, Served
from labkit.torch_shim.devices import Devices

KEY = "PrivateUse1"

WITH_OUTPUTS = {
    "mm.out": "mm", "bmm.out": "bmm", "addmm.out": "addmm", "baddbmm.out": "baddbmm",
    "sum.IntList_out": "sum.dim_IntList", "mean.out": "mean.dim", "amax.out": "amax",
    "amin.out": "amin", "cat.out": "cat", "_softmax.out": "_softmax",
    "_softmax_backward_data.out": "_softmax_backward_data", "_log_softmax.out": "_log_softmax",
    "_log_softmax_backward_data.out": "_log_softmax_backward_data",
    "nll_loss_forward.output": "nll_loss_forward",
    "nll_loss_backward.grad_input": "nll_loss_backward",
    "max_pool2d_with_indices.out": "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward.grad_input": "max_pool2d_with_indices_backward",
    "all.out": "all.dim", "all.all_out": "all", "any.out": "any.dim", "any.all_out": "any",
    "tril.out": "tril", "triu.out": "triu", "linalg_vector_norm.out": "linalg_vector_norm",
    "avg_pool2d.out": "avg_pool2d", "avg_pool2d_backward.grad_input": "avg_pool2d_backward",
}  # fmt: skip
"""PyTorch's overload with outputs -> labkit's operator, whose result is moved there."""

AS_THEY_ARE = (
    "dot", "max", "min", "nll_loss2d_forward", "nll_loss2d_backward", "embedding",
    "embedding_dense_backward", "native_layer_norm", "native_layer_norm_backward",
    "native_batch_norm", "native_batch_norm_backward", "native_dropout",
    "_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_",
)  # fmt: skip
"""Operators that are not structured; labkit's result becomes PyTorch's tensor."""

DRAW = ("uniform_", "normal_", "bernoulli_.float", "random_.from", "random_.to", "random_")
"""Operators that fill a tensor with random numbers."""


class Kernels:
    """What is registered, for as long as this object lives.

    served  operator -> what serves it
    """

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self.library = torch.library.Library("aten", "IMPL", KEY)
        self.every = torch.library.Library("_", "IMPL", KEY)
        self.served: dict[str, Served] = {}
        self.every.fallback(on_the_host_boxed, KEY)
        self.casting = torch.library.Library("aten", "IMPL", autocast.KEY)
        autocast.register(self.casting)
        self._register_copies()
        for name, function in _pointwise():
            self.serve(name, function, fits_output=_broadcast)
        for name, own in WITH_OUTPUTS.items():
            self.serve(name, DEVICE_KERNELS[own], outputs=_outputs(name))
        for name in AS_THEY_ARE:
            self.serve(name, DEVICE_KERNELS[name])
        for name in DRAW:
            self.serve(name, device_distributions.filler(name, Device("cuda")))
        self.serve(
            "convolution_overrideable", DEVICE_KERNELS["convolution"],
            host=lambda *args: on_the_host(torch.ops.aten.convolution.default, args, {}),
        )  # fmt: skip
        self.serve(
            "convolution_backward_overrideable", _convolution_backward,
            host=lambda *args: on_the_host(
                torch.ops.aten.convolution_backward.default, _with_bias_sizes(*args), {}
            ),
        )  # fmt: skip
        for name, cell in CELLS.items():
            self.library.impl(name, cell, KEY)
        self.library.impl("native_dropout_backward", native_dropout_backward, KEY)
        self.serve("arange.start_out", _arange, fits_output=_arange_fits)

    def serve(self, name: str, function: Function, **how: Any) -> None:
        """The operator's kernel is this function of labkit's, on twins of PyTorch's tensors.

        name  "add.out"
        how   the other fields of `Served`
        """
        served = self.served[name] = Served(self.devices, _operator(name), function, **how)
        self.library.impl(name, lambda *args, **kwargs: served(*args, **kwargs), KEY)

    def _register_copies(self) -> None:
        copies = Copies(self.devices)

        def copy_and_resize(source: torch.Tensor, destination: torch.Tensor) -> torch.Tensor:
            return copies.copy_from(source, destination.resize_(source.shape))

        self.library.impl("_copy_from", copies.copy_from, KEY)
        self.library.impl("_copy_from_and_resize", copy_and_resize, KEY)
        self.library.impl("_local_scalar_dense", copies.item, KEY)
        self.serve("fill_.Scalar", _fill)
        self.serve("zero_", lambda self: _fill(self, 0))


def on_the_host_boxed(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The fallback as PyTorch calls it."""
    return on_the_host(op, args, kwargs)


def _broadcast(*args: Any) -> torch.Size:
    return torch.broadcast_shapes(*[each.shape for each in args if isinstance(each, torch.Tensor)])


def _pointwise() -> Iterator[tuple[str, Function]]:
    """Element-wise operators that have an expression, in the forms that want a kernel."""
    for name, function in ON_DEVICES.items():
        if function.__self__.base.partition(".")[0] in EXPRESSIONS and _wants_a_kernel(name):  # type: ignore[attr-defined]
            yield name, function
    for name, operator in OPERATORS.items():
        if name in EXPRESSIONS and _wants_a_kernel(f"{name}.grad_input"):
            yield f"{name}.grad_input", _named_grad_input(operator.into)
        base, _, overload = name.partition(".")
        scalar = f"{base}.Scalar_out"
        of_tensors = base in EXPRESSIONS and overload == "Tensor"
        if of_tensors and scalar not in ON_DEVICES and _wants_a_kernel(scalar):
            yield scalar, _with_number(operator.into)


def _wants_a_kernel(name: str) -> bool:
    """True where PyTorch's CPU has one of its own, behind no structured form."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    try:
        wanted: bool = has(f"aten::{name}", "CPU")
        return wanted and not has(f"aten::{name}", "CompositeExplicitAutogradNonFunctional")
    except RuntimeError:  # PyTorch has no such overload
        return False


def _named_grad_input(into: Function) -> Function:
    return lambda *args, grad_input, **kwargs: into(*args, out=grad_input, **kwargs)


def _with_number(into: Function) -> Function:
    return lambda self, other, *, out: into(self, wrapped_number(other), out=out)


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _outputs(name: str) -> tuple[str, ...]:
    arguments = _operator(name)._schema.arguments
    return tuple([argument.name for argument in arguments if argument.is_out])


def _fill(self: Any, value: Any) -> Any:
    copying.fill(self, value)
    return self


def _with_bias_sizes(grad: Any, input_: Any, weight: Any, *rest: Any) -> tuple[Any, ...]:
    """The arguments of convolution_backward; the overrideable operator leaves one out."""
    *_, transposed, _, groups, _ = rest
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    return grad, input_, weight, [channels], *rest


def _convolution_backward(grad: Any, input_: Any, weight: Any, *rest: Any) -> Any:
    return DEVICE_KERNELS["convolution_backward"](grad, input_, weight, None, *rest)


def _arange_fits(start: Any, end: Any, step: Any = 1) -> torch.Size:
    return torch.arange(start, end, step, device="meta").shape


def _arange(start: Any, end: Any, step: Any = 1, *, out: Any) -> Any:
    return fill_range(out, start, step)


def native_dropout_backward(
    grad_output: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    """The gradient of what was kept, scaled as it was."""
    return grad_output * mask * scale
