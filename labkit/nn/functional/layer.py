"""Linear maps, convolutions, embeddings, norms and attention.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

from labkit.nn.functional.faces import Size, Tensor, face, spread

Optional = Tensor | None

linear = face("linear")
conv1d = face("conv1d")
conv2d = face("conv2d")
conv3d = face("conv3d")
conv_transpose1d = face("conv_transpose1d")
conv_transpose2d = face("conv_transpose2d")
conv_transpose3d = face("conv_transpose3d")
scaled_dot_product_attention = face("scaled_dot_product_attention")


def unfold(
    input: Tensor,  # noqa: A002  PyTorch's name for it
    kernel_size: Size,
    dilation: Size = 1,
    padding: Size = 0,
    stride: Size = 1,
) -> Tensor:
    """One column per sliding window."""
    window = (spread(each, 2) for each in (kernel_size, dilation, padding, stride))
    return face("im2col")(input, *window)


def fold(
    input: Tensor,  # noqa: A002
    output_size: Size,
    kernel_size: Size,
    dilation: Size = 1,
    padding: Size = 0,
    stride: Size = 1,
) -> Tensor:
    """Columns added back where their windows lie."""
    window = (spread(each, 2) for each in (output_size, kernel_size, dilation, padding, stride))
    return face("col2im")(input, *window)


def embedding(
    input: Tensor,  # noqa: A002
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` that `input` names.

    padding_idx  a row that gets no gradient, counted from the back when negative

    Raises   ValueError            a padding row outside the table
             NotImplementedError   a `max_norm`: rows are not shortened here
    """
    if max_norm is not None:
        raise NotImplementedError(f"embedding(max_norm={max_norm}): rows are not shortened here")
    rows = weight.size(0)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ValueError(f"padding_idx {padding_idx} must be within the {rows} rows")
    padding = -1 if padding_idx is None else padding_idx % rows
    return face("embedding")(weight, input, padding, scale_grad_by_freq, sparse)


def _check_several(sizes: Sequence[int], kept: int = 2) -> None:
    """Refuse to take statistics of one value per channel."""
    values = sizes[0] if kept == 2 else 1
    for size in sizes[2:]:
        values *= size
    if values == 1:
        what = "value per channel" if kept == 2 else "spatial element"
        raise ValueError(f"Expected more than 1 {what} when training, got input size {list(sizes)}")


def batch_norm(
    input: Tensor,  # noqa: A002
    running_mean: Optional,
    running_var: Optional,
    weight: Optional = None,
    bias: Optional = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Every channel normalised over the batch."""
    if training:
        _check_several(input.shape)
    return face("batch_norm")(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def instance_norm(
    input: Tensor,  # noqa: A002
    running_mean: Optional = None,
    running_var: Optional = None,
    weight: Optional = None,
    bias: Optional = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Every channel of every sample normalised."""
    if use_input_stats:
        _check_several(input.shape, kept=1)
    return face("instance_norm")(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(
    input: Tensor,  # noqa: A002
    normalized_shape: Sequence[int],
    weight: Optional = None,
    bias: Optional = None,
    eps: float = 1e-5,
) -> Tensor:
    """The last dimensions normalised."""
    return face("layer_norm")(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor,  # noqa: A002
    num_groups: int,
    weight: Optional = None,
    bias: Optional = None,
    eps: float = 1e-5,
) -> Tensor:
    """Groups of channels of every sample normalised."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor, got {input.dim()}")
    sizes = input.shape
    _check_several([sizes[0] * sizes[1] // num_groups, num_groups, *sizes[2:]])
    return face("group_norm")(input, num_groups, weight, bias, eps)


def rms_norm(
    input: Tensor,  # noqa: A002
    normalized_shape: Sequence[int],
    weight: Optional = None,
    eps: float | None = None,
) -> Tensor:
    """The last dimensions divided by their root mean square."""
    return face("rms_norm")(input, normalized_shape, weight, eps)


def normalize(
    input: Tensor,  # noqa: A002
    p: float = 2.0,
    dim: int = 1,
    eps: float = 1e-12,
    out: Optional = None,
) -> Tensor:
    """Every vector along the dimension divided by its norm, or by `eps` where that is smaller."""
    if out is not None:
        raise NotImplementedError("normalize(out=...) is not supported")
    length = face("linalg_vector_norm")(input, p, [dim], True).clamp_min(eps)
    return input / length.expand_as(input)
