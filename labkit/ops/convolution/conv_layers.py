"""`conv1d` ... `conv_transpose3d`: checks, words for paddings, then one `convolution`.

Source   aten/src/ATen/native/Convolution.cpp  conv2d, conv_transpose2d, convolution_same
"""
# mypy: disable-error-code="no-any-return"

from collections.abc import Callable, Sequence

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.registration import composite

Ints = Sequence[int]


def _batched(input_: TensorImpl, rank: int, name: str) -> tuple[TensorImpl, bool]:
    """The input with a batch dimension, and whether it had one.

    Source   aten/src/ATen/native/Convolution.cpp  batchify
    """
    if input_.dim() not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got "
            f"input of size: {list(input_.sizes)}"
        )
    if input_.dim() == rank + 2:
        return input_, True
    return aten.unsqueeze.default(input_, 0), False


def _same(
    input_: TensorImpl,
    weight: TensorImpl,
    bias: TensorImpl | None,
    stride: Ints,
    dilation: Ints,
    groups: int,
) -> TensorImpl:
    """The output as large as the input; what cannot be padded evenly is padded behind."""
    rank = weight.dim() - 2
    if any(step != 1 for step in stride):
        raise RuntimeError(
            f"padding='same' is not supported for strided convolutions, got {list(stride)}"
        )
    dilation = tuple(dilation) if len(dilation) == rank else (dilation[0],) * rank
    total = [d * (size - 1) for d, size in zip(dilation, weight.sizes[2:], strict=True)]
    padding = [each // 2 for each in total]
    if any(each % 2 for each in total):
        behind = [amount for each in reversed(total) for amount in (0, each % 2)]
        input_ = aten.constant_pad_nd.default(input_, behind, 0)
    return aten.convolution.default(
        input_, weight, bias, stride, padding, dilation, False, (0,) * rank, groups
    )


def _conv(
    rank: int,
    input_: TensorImpl,
    weight: TensorImpl,
    bias: TensorImpl | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
) -> TensorImpl:
    batch, had_batch = _batched(input_, rank, f"conv{rank}d")
    if padding == "same":
        result = _same(batch, weight, bias, stride, dilation, groups)
    elif isinstance(padding, str) and padding != "valid":
        raise RuntimeError(f"Invalid padding string: {padding!r}; there are 'same' and 'valid'")
    else:
        amount = (0,) * rank if isinstance(padding, str) else padding
        result = aten.convolution.default(
            batch, weight, bias, stride, amount, dilation, False, (0,) * rank, groups
        )
    return result if had_batch else aten.squeeze.dim(result, 0)


def _define_conv(rank: int) -> Callable[..., TensorImpl]:
    ones, zeros = (f"[{', '.join(number * rank)}]" for number in ("1", "0"))
    one, zero = (1,) * rank, (0,) * rank

    @composite(
        f"conv{rank}d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{rank}] "
        f"stride={ones}, SymInt[{rank}] padding={zeros}, SymInt[{rank}] dilation={ones}, "
        "SymInt groups=1) -> Tensor",
        variants="function",
    )
    def conv(
        input: TensorImpl,  # noqa: A002  PyTorch's name for it
        weight: TensorImpl,
        bias: TensorImpl | None = None,
        stride: Ints = one,
        padding: Ints = zero,
        dilation: Ints = one,
        groups: int = 1,
    ) -> TensorImpl:
        """The input [N, C, *spatial] or [C, *spatial] under every filter."""
        return _conv(rank, input, weight, bias, stride, padding, dilation, groups)

    @composite(
        f"conv{rank}d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{rank}] "
        f'stride={ones}, str padding="valid", SymInt[{rank}] dilation={ones}, '
        "SymInt groups=1) -> Tensor",
        variants="function",
    )
    def conv_padding(
        input: TensorImpl,  # noqa: A002
        weight: TensorImpl,
        bias: TensorImpl | None = None,
        stride: Ints = one,
        padding: str = "valid",
        dilation: Ints = one,
        groups: int = 1,
    ) -> TensorImpl:
        """As above, with padding "same" or "valid"."""
        return _conv(rank, input, weight, bias, stride, padding, dilation, groups)

    overload = "" if rank == 1 else ".input"

    @composite(
        f"conv_transpose{rank}d{overload}(Tensor input, Tensor weight, Tensor? bias=None, "
        f"SymInt[{rank}] stride={ones}, SymInt[{rank}] padding={zeros}, SymInt[{rank}] "
        f"output_padding={zeros}, SymInt groups=1, SymInt[{rank}] dilation={ones}) -> Tensor",
        variants="function",
    )
    def conv_transpose(
        input: TensorImpl,  # noqa: A002
        weight: TensorImpl,
        bias: TensorImpl | None = None,
        stride: Ints = one,
        padding: Ints = zero,
        output_padding: Ints = zero,
        groups: int = 1,
        dilation: Ints = one,
    ) -> TensorImpl:
        """Every element of [N, C, *spatial] or [C, *spatial] laid out through its filters."""
        batch, had_batch = _batched(input, rank, f"conv_transpose{rank}d")
        result = aten.convolution.default(
            batch, weight, bias, stride, padding, dilation, True, output_padding, groups
        )
        return result if had_batch else aten.squeeze.dim(result, 0)

    return conv


conv1d, conv2d, conv3d = (_define_conv(rank) for rank in (1, 2, 3))
