"""Activations and dropout.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

from labkit.core.dtype import DType
from labkit.nn.functional.faces import Tensor, face

gelu = face("gelu")
softplus = face("softplus")


def _chosen(name: str, inplace: bool) -> Tensor:
    return face(f"{name}_" if inplace else name)


def relu(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002  PyTorch's names
    """The positive part."""
    return _chosen("relu", inplace)(input)


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


def silu(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """The input times its sigmoid."""
    return _chosen("silu", inplace)(input)


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
