"""Operators to explain, and arguments that suit them."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch


def _names(text: str) -> list[str]:
    return text.split()


UNARY = _names(
    """
    abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv
    exp exp2 expm1 floor frac i0 isfinite isinf isnan lgamma log log10 log1p log2 logical_not
    logit neg positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc
    sinh sqrt square tan tanh trunc celu elu selu silu mish hardtanh hardsigmoid hardswish
    softplus gelu leaky_relu log_sigmoid relu6 clone detach alias zeros_like ones_like
    empty_like rand_like randn_like isreal nan_to_num ravel contiguous resolve_conj
    conj_physical lift
    """
)
IN_PLACE = _names(
    """
    abs_ ceil_ cos_ exp_ floor_ neg_ relu_ sigmoid_ sin_ sqrt_ tanh_ zero_ square_
    """
)
BINARY = _names(
    """
    add.Tensor sub.Tensor mul.Tensor div.Tensor pow.Tensor_Tensor atan2 copysign.Tensor
    eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor fmax fmin fmod.Tensor hypot
    heaviside logaddexp logaddexp2 maximum minimum remainder.Tensor logical_and logical_or
    logical_xor nextafter xlogy.Tensor max.other min.other floor_divide true_divide.Tensor
    mse_loss smooth_l1_loss l1_loss isclose dist.default equal expand_as view_as type_as
    add_.Tensor sub_.Tensor mul_.Tensor div_.Tensor copy_ rsub.Tensor
    """
)
REDUCTIONS = _names(
    """
    sum mean prod amax.default amin.default max min any all argmax argmin var std logsumexp
    norm median nansum count_nonzero var_mean std_mean
    """
)
SQUARE = _names(
    """
    t tril triu diag diagonal trace det inverse matrix_exp linalg_det linalg_inv
    linalg_eigvalsh diag_embed rot90 flip.default linalg_norm
    """
)

Arguments = Callable[["Draw"], tuple[Any, ...]]


class Draw:
    """Random small tensors of the shapes that samples need."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.generator = torch.Generator().manual_seed(rng.getrandbits(32))
        self.grad = rng.random() < 0.5

    def tensor(self, *shape: int) -> torch.Tensor:
        """Float values in (0.1, 0.9), so that logarithms and inverses exist."""
        made = torch.rand(shape, generator=self.generator) * 0.8 + 0.1
        return made.requires_grad_() if self.grad and self.rng.random() < 0.6 else made

    def plain(self, *shape: int) -> torch.Tensor:
        """The same, never a leaf that wants a gradient: it may be written."""
        return torch.rand(shape, generator=self.generator) * 0.8 + 0.1

    def index(self, high: int, *shape: int) -> torch.Tensor:
        """Indices below `high`."""
        return torch.randint(0, high, shape, generator=self.generator)


OTHERS: dict[str, Arguments] = {
    "mm": lambda d: (d.tensor(3, 4), d.tensor(4, 2)),
    "bmm": lambda d: (d.tensor(2, 3, 4), d.tensor(2, 4, 2)),
    "matmul": lambda d: (d.tensor(3, 4), d.tensor(4, 2)),
    "mv": lambda d: (d.tensor(3, 4), d.tensor(4)),
    "dot": lambda d: (d.tensor(4), d.tensor(4)),
    "outer": lambda d: (d.tensor(3), d.tensor(4)),
    "addmm": lambda d: (d.tensor(3, 2), d.tensor(3, 4), d.tensor(4, 2)),
    "baddbmm": lambda d: (d.tensor(2, 3, 2), d.tensor(2, 3, 4), d.tensor(2, 4, 2)),
    "linear": lambda d: (d.tensor(3, 4), d.tensor(2, 4), d.tensor(2)),
    "einsum": lambda d: ("ij,jk->ik", [d.tensor(3, 4), d.tensor(4, 2)]),
    "conv2d": lambda d: (d.tensor(1, 2, 5, 5), d.tensor(3, 2, 3, 3), d.tensor(3)),
    "conv1d": lambda d: (d.tensor(1, 2, 5), d.tensor(3, 2, 3), None),
    "max_pool2d": lambda d: (d.tensor(1, 2, 4, 4), [2, 2]),
    "avg_pool2d": lambda d: (d.tensor(1, 2, 4, 4), [2, 2]),
    "adaptive_avg_pool2d": lambda d: (d.tensor(1, 2, 4, 4), [2, 2]),
    "layer_norm": lambda d: (d.tensor(3, 4), [4], d.tensor(4), d.tensor(4)),
    "batch_norm": lambda d: (
        d.tensor(3, 4), d.tensor(4), d.tensor(4), d.plain(4), d.plain(4), False, 0.1, 1e-5, False,
    ),
    "group_norm": lambda d: (d.tensor(2, 4, 3), 2),
    "embedding": lambda d: (d.tensor(5, 3), d.index(5, 4)),
    "softmax.int": lambda d: (d.tensor(3, 4), -1),
    "log_softmax.int": lambda d: (d.tensor(3, 4), -1),
    "_softmax": lambda d: (d.tensor(3, 4), -1, False),
    "dropout": lambda d: (d.tensor(3, 4), 0.5, True),
    "binary_cross_entropy_with_logits": lambda d: (d.tensor(3), d.plain(3)),
    "cross_entropy_loss": lambda d: (d.tensor(3, 4), d.index(4, 3)),
    "soft_margin_loss": lambda d: (d.tensor(3), d.plain(3)),
    "nll_loss": lambda d: (d.tensor(3, 4), d.index(4, 3)),
    "scaled_dot_product_attention": lambda d: (
        d.tensor(1, 2, 3, 4), d.tensor(1, 2, 3, 4), d.tensor(1, 2, 3, 4),
    ),
    "view": lambda d: (d.tensor(3, 4), [4, 3]),
    "reshape": lambda d: (d.tensor(3, 4), [12]),
    "permute": lambda d: (d.tensor(2, 3, 4), [2, 0, 1]),
    "transpose.int": lambda d: (d.tensor(3, 4), 0, 1),
    "expand": lambda d: (d.tensor(1, 4), [3, 4]),
    "squeeze": lambda d: (d.tensor(1, 4),),
    "unsqueeze": lambda d: (d.tensor(4), 0),
    "select.int": lambda d: (d.tensor(3, 4), 0, 1),
    "slice.Tensor": lambda d: (d.tensor(5, 4), 0, 1, 4, 2),
    "narrow": lambda d: (d.tensor(5, 4), 0, 1, 2),
    "as_strided": lambda d: (d.tensor(3, 4), [2, 2], [4, 1]),
    "unfold": lambda d: (d.tensor(6), 0, 2, 2),
    "split.Tensor": lambda d: (d.tensor(6), 2),
    "chunk": lambda d: (d.tensor(6), 3),
    "unbind.int": lambda d: (d.tensor(3, 4), 0),
    "flatten.using_ints": lambda d: (d.tensor(2, 3, 4),),
    "movedim.int": lambda d: (d.tensor(2, 3, 4), 0, 2),
    "cat": lambda d: ([d.tensor(2, 3), d.tensor(2, 3)],),
    "stack": lambda d: ([d.tensor(2, 3), d.tensor(2, 3)],),
    "where.self": lambda d: (d.plain(3) > 0.5, d.tensor(3), d.tensor(3)),
    "masked_fill.Scalar": lambda d: (d.tensor(3), d.plain(3) > 0.5, 1.0),
    "gather": lambda d: (d.tensor(3, 4), 1, d.index(4, 3, 2)),
    "scatter.src": lambda d: (d.tensor(3, 4), 1, d.index(4, 3, 2), d.tensor(3, 2)),
    "index_select": lambda d: (d.tensor(3, 4), 0, d.index(3, 2)),
    "index.Tensor": lambda d: (d.tensor(3, 4), [d.index(3, 2)]),
    "take": lambda d: (d.tensor(3, 4), d.index(12, 3)),
    "cumsum": lambda d: (d.tensor(3, 4), 1),
    "cumprod": lambda d: (d.tensor(3, 4), 1),
    "sort": lambda d: (d.tensor(3, 4),),
    "topk": lambda d: (d.tensor(6), 2),
    "clamp": lambda d: (d.tensor(3, 4), 0.2, 0.6),
    "clamp_min": lambda d: (d.tensor(3, 4), 0.2),
    "lerp.Scalar": lambda d: (d.tensor(3), d.tensor(3), 0.3),
    "addcmul": lambda d: (d.tensor(3), d.tensor(3), d.tensor(3)),
    "addcdiv": lambda d: (d.tensor(3), d.tensor(3), d.tensor(3)),
    "add.Scalar": lambda d: (d.tensor(3), 2),
    "mul.Scalar": lambda d: (d.tensor(3), 2.0),
    "pow.Tensor_Scalar": lambda d: (d.tensor(3), 2),
    "sum.dim_IntList": lambda d: (d.tensor(3, 4), [1]),
    "mean.dim": lambda d: (d.tensor(3, 4), [1]),
    "roll": lambda d: (d.tensor(3, 4), [1], [0]),
    "repeat": lambda d: (d.tensor(3), [2]),
    "constant_pad_nd": lambda d: (d.tensor(3, 4), [1, 1]),
    "one_hot": lambda d: (d.index(4, 3), 4),
    "zeros": lambda d: ([2, 3],),
    "ones": lambda d: ([2, 3],),
    "empty.memory_format": lambda d: ([2, 3],),
    "full": lambda d: ([2, 3], 1.5),
    "arange": lambda d: (5,),
    "randn": lambda d: ([2, 3],),
    "rand": lambda d: ([2, 3],),
    "eye": lambda d: (3,),
    "linspace": lambda d: (0.0, 1.0, 5),
    "new_zeros": lambda d: (d.tensor(3), [2]),
    "fill_.Scalar": lambda d: (d.plain(3), 2.0),
    "to.dtype": lambda d: (d.tensor(3), torch.float64),
    "_to_copy": lambda d: (d.tensor(3),),
}  # fmt: skip
"""Operator -> how to draw arguments for it, when no family fits."""


def samples(rng: random.Random) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(operator, arguments) for every operator above, shapes drawn anew."""
    families: list[tuple[list[str], Arguments]] = [
        (UNARY, lambda d: (d.tensor(*_shape(rng)),)),
        (IN_PLACE, lambda d: (d.plain(*_shape(rng)),)),
        (BINARY, _pair),
        (REDUCTIONS, lambda d: (d.tensor(3, 4),)),
        (SQUARE, lambda d: (d.tensor(3, 3),)),
    ]
    for names, arguments in families:
        for name in names:
            yield f"aten::{name.removesuffix('.default')}", _draw(rng, name, arguments)
    for name, arguments in OTHERS.items():
        yield f"aten::{name}", _draw(rng, name, arguments)


def _draw(rng: random.Random, name: str, arguments: Arguments) -> tuple[Any, ...]:
    special = {"flip.default": ([0],), "amax.default": ([1],), "amin.default": ([1],)}
    extra: tuple[Any, ...] = special.get(name, ([1],) if name == "logsumexp" else ())
    return (*arguments(Draw(rng)), *extra)


def _pair(draw: Draw) -> tuple[Any, ...]:
    shape = _shape(draw.rng)
    return draw.plain(*shape), draw.tensor(*shape)


def _shape(rng: random.Random) -> tuple[int, ...]:
    return rng.choice(((3,), (2, 3), (1, 4), (2, 1, 3)))
