"""Operators that make tensors from nothing, or from the shape of one: no derivative, or none left.

Random numbers written over a tensor end its history: what it held before gets zeros.
"""

from labkit.autograd.derivatives.row import Row, not_differentiable, row

ZERO = "zeros_like(grad)"


def _overwritten(operator: str, node: str) -> Row:
    return row(operator, node, self=ZERO)


ROWS: list[Row] = [
    _overwritten("uniform_", "UniformBackward0"),
    _overwritten("normal_", "NormalBackward0"),
    _overwritten("bernoulli_.float", "BernoulliBackward2"),
    _overwritten("random_.from", "RandomBackward0"),
    _overwritten("random_.to", "RandomBackward1"),
    _overwritten("random_", "RandomBackward2"),
    *not_differentiable(
        "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
        "new_empty", "new_zeros", "new_ones", "allclose",
    ),
]  # fmt: skip
