"""Derivatives of arithmetic: sums, products, quotients, powers."""

from labkit.autograd.derivatives.row import Row, row

ROWS: list[Row] = [
    row(
        "add.Tensor", "AddBackward0",
        self="grad",
        other="maybe_multiply(grad, conj(alpha))",
    ),
    row("add.Scalar", "AddBackward1", self="grad"),
    row(
        "sub.Tensor", "SubBackward0",
        self="grad",
        other="maybe_multiply(-grad, conj(alpha))",
    ),
    row("sub.Scalar", "SubBackward1", self="grad"),
    row(
        "rsub.Tensor", "RsubBackward0",
        self="maybe_multiply(-grad, conj(alpha))",
        other="grad",
    ),
    row(
        "rsub.Scalar", "RsubBackward1",
        self="maybe_multiply(-grad, conj(alpha))",
    ),
    row(
        "mul.Tensor", "MulBackward0",
        self="grad * conj(other)",
        other="grad * conj(self)",
    ),
    row(
        "mul.Scalar", "MulBackward1",
        self="grad * conj(other)",
    ),
    row(
        "div.Tensor", "DivBackward0",
        self="grad / conj(other)",
        other="-grad * conj((self / other) / other)",
    ),
    row(
        "div.Scalar", "DivBackward1",
        self="grad / conj(other)",
    ),
    row(
        "div.Tensor_mode", "DivBackward2",
        self="div_mode_self(grad, other, self.dtype, rounding_mode)",
        other="div_mode_other(grad, self, other, rounding_mode)",
    ),
    row(
        "div.Scalar_mode", "DivBackward3",
        self="div_mode_self(grad, other, self.dtype, rounding_mode)",
    ),
    row(
        "pow.Tensor_Scalar", "PowBackward0",
        self="pow_self(grad, self, exponent)",
    ),
    row(
        "pow.Tensor_Tensor", "PowBackward1",
        self="pow_self_tensor(grad, self, exponent)",
        exponent="pow_exponent(grad, self, exponent, result)",
    ),
    row(
        "pow.Scalar", "PowBackward2",
        exponent="pow_scalar_exponent(grad, self, exponent, result)",
    ),
    row("neg", "NegBackward0", self="-grad"),
    row(
        "addcmul", "AddcmulBackward0",
        self="grad",
        tensor1="grad * conj(tensor2 * value)",
        tensor2="grad * conj(tensor1 * value)",
    ),
    row(
        "addcdiv", "AddcdivBackward0",
        self="grad",
        tensor1="grad * conj(value / tensor2)",
        tensor2="-grad * conj((value * tensor1 / tensor2) / tensor2)",
    ),
    row(
        "lerp.Scalar", "LerpBackward0",
        self="grad * (1 - conj(weight))",
        end="grad * conj(weight)",
    ),
    row(
        "lerp.Tensor", "LerpBackward1",
        self="grad * conj(1 - weight)",
        end="grad * conj(weight)",
        weight="grad * conj(end - self)",
    ),
    row("fmod.Scalar", "FmodBackward0", self="grad"),
    row(
        "fmod.Tensor", "FmodBackward1",
        self="grad",
        other="-grad * aten.div.Tensor_mode(self, other, rounding_mode='trunc')",
    ),
    row("remainder.Scalar", "RemainderBackward0", self="grad"),
    row(
        "remainder.Tensor", "RemainderBackward1",
        self="grad",
        other="-grad * aten.div.Tensor_mode(self, other, rounding_mode='floor')",
    ),
    row("reciprocal", "ReciprocalBackward0", self="-grad * conj(result * result)"),
]  # fmt: skip
