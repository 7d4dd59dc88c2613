"""`conv2d`: one image or a batch of them, then one `convolution`.

Source   aten/src/ATen/native/Convolution.cpp  conv2d, batchify
"""

from collections.abc import Sequence
from typing import Any

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.registration import composite

Ints = Sequence[int]


@composite(
    "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
    "SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    variants="function",
)
def conv2d(
    input: TensorImpl,  # noqa: A002  PyTorch's name for it
    weight: TensorImpl,
    bias: TensorImpl | None = None,
    stride: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
) -> Any:
    """The input [N, C, H, W] or [C, H, W] under every filter."""
    if input.dim() not in (3, 4):
        raise RuntimeError(
            "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: "
            f"{list(input.sizes)}"
        )
    batch = input if input.dim() == 4 else aten.unsqueeze.default(input, 0)
    result = aten.convolution.default(
        batch, weight, bias, stride, padding, dilation, False, (0, 0), groups
    )
    return result if input.dim() == 4 else aten.squeeze.dim(result, 0)


@composite(
    "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
    'str padding="valid", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor',
    variants="function",
)
def conv2d_padding(*args: Any, **kwargs: Any) -> Any:
    """Raises   NotImplementedError   always: paddings are numbers here."""
    raise NotImplementedError("conv2d: padding is given as numbers here, not as 'same' or 'valid'")
