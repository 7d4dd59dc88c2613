"""Activations and dropout.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

from labkit.core.dtype import DType
from labkit.nn.functional.faces import Tensor, face

prelu = face("prelu")
logsigmoid = face("log_sigmoid")
gelu = face("gelu")
hardshrink = face("hardshrink")
softshrink = face("softshrink")
softplus = face("softplus")
one_hot = face("one_hot")


def _chosen(name: str, inplace: bool) -> Tensor:
    return face(f"{name}_" if inplace else name)


def relu(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002  PyTorch's names
    """The positive part."""
    return _chosen("relu", inplace)(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """The positive part, at most 6."""
    return _chosen("relu6", inplace)(input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:  # noqa: A002
    """The positive part, and below 0 an exponential towards -alpha."""
    return _chosen("elu", inplace)(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """`elu` scaled so that mean 0 and variance 1 stay."""
    return _chosen("selu", inplace)(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:  # noqa: A002
    """`elu` with a slope that is continuous for every alpha."""
    return _chosen("celu", inplace)(input, alpha)


def leaky_relu(
    input: Tensor,  # noqa: A002
    negative_slope: float = 0.01,
    inplace: bool = False,
) -> Tensor:
    """The positive part, and a smaller slope below 0."""
    return _chosen("leaky_relu", inplace)(input, negative_slope)


def threshold(
    input: Tensor,  # noqa: A002
    threshold: float,
    value: float,
    inplace: bool = False,
) -> Tensor:
    """The elements above the threshold, `value` for the others."""
    return _chosen("threshold", inplace)(input, threshold, value)


def glu(input: Tensor, dim: int = -1) -> Tensor:  # noqa: A002
    """One half times the sigmoid of the other."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return face("glu")(input, dim)


def silu(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """The input times its sigmoid."""
    return _chosen("silu", inplace)(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """The input times the hyperbolic tangent of its softplus."""
    return _chosen("mish", inplace)(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """A sigmoid of three straight pieces."""
    return _chosen("hardsigmoid", inplace)(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """The input times its `hardsigmoid`."""
    return _chosen("hardswish", inplace)(input)


def hardtanh(
    input: Tensor,  # noqa: A002
    min_val: float = -1.0,
    max_val: float = 1.0,
    inplace: bool = False,
) -> Tensor:
    """The input between two bounds."""
    if min_val > max_val:
        raise ValueError(f"min_val {min_val} cannot be greater than max_val {max_val}")
    return _chosen("hardtanh", inplace)(input, min_val, max_val)


def tanhshrink(input: Tensor) -> Tensor:  # noqa: A002
    """The input less its hyperbolic tangent."""
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:  # noqa: A002
    """The input over one more than its size."""
    return input / (input.abs() + 1)


def sigmoid(input: Tensor) -> Tensor:  # noqa: A002
    """The logistic function."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:  # noqa: A002
    """The hyperbolic tangent."""
    return input.tanh()


def _dim_of(dim: int | None, ndim: int) -> int:
    """The dimension nobody named, as old code expects it."""
    return dim if dim is not None else (0 if ndim in (0, 1, 3) else 1)


def softmax(
    input: Tensor,  # noqa: A002
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: DType | None = None,
) -> Tensor:
    """Exponentials that sum to one along the dimension."""
    return face("softmax")(input, _dim_of(dim, input.dim()), dtype)


def softmin(
    input: Tensor,  # noqa: A002
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: DType | None = None,
) -> Tensor:
    """`softmax` of the negative."""
    return face("softmax")(-input, _dim_of(dim, input.dim()), dtype)


def log_softmax(
    input: Tensor,  # noqa: A002
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: DType | None = None,
) -> Tensor:
    """The logarithm of `softmax`."""
    return face("log_softmax")(input, _dim_of(dim, input.dim()), dtype)


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(
    input: Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Tensor:
    """In training, elements set to 0 with probability p and the others scaled up."""
    _check_probability(p)
    return _chosen("dropout", inplace)(input, p, training)


def alpha_dropout(
    input: Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Dropout that keeps mean and variance of what `selu` gives."""
    _check_probability(p)
    return _chosen("alpha_dropout", inplace)(input, p, training)


def _feature_dropout(input_: Tensor, p: float, training: bool, inplace: bool, ranks: str) -> Tensor:
    _check_probability(p)
    single, batch = (int(rank) for rank in ranks)
    if input_.dim() not in (single, batch):
        raise RuntimeError(
            f"Expected a {single}-D or {batch}-D input, but received a {input_.dim()}-D input"
        )
    drop = _chosen("feature_dropout", inplace)
    if input_.dim() == batch:
        return drop(input_, p, training)
    return drop(input_.unsqueeze(0), p, training).squeeze(0)


def dropout1d(
    input: Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Tensor:
    """Dropout of whole channels of [N, C, L] or [C, L]."""
    return _feature_dropout(input, p, training, inplace, "23")


def dropout2d(
    input: Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Tensor:
    """Dropout of whole channels of [N, C, H, W]."""
    _check_probability(p)
    return _chosen("feature_dropout", inplace)(input, p, training)


def dropout3d(
    input: Tensor,  # noqa: A002
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> Tensor:
    """Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W]."""
    return _feature_dropout(input, p, training, inplace, "45")
