"""Cross entropy, written in other operators.

Source   aten/src/ATen/native/LossNLL.cpp  cross_entropy_loss
"""

# mypy: disable-error-code="no-any-return"

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.layers.loss import MEAN
from labkit.ops.registration import composite

Optional = TensorImpl | None


@composite(
    "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
    "SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
    variants="",
)
def cross_entropy_loss(
    self: TensorImpl,
    target: TensorImpl,
    weight: Optional = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> TensorImpl:
    """The loss of scores [N, C, ...] against classes [N, ...].

    Raises   NotImplementedError   targets that are probabilities, or smoothed
    """
    if self.sizes == target.sizes or label_smoothing:
        raise NotImplementedError(
            f"cross_entropy of {target.dtype.name} targets {list(target.sizes)} with "
            f"label_smoothing={label_smoothing}: labkit has classes, not smoothed"
        )
    scores = aten.log_softmax.int(self, 0 if self.dim() == 1 else 1, self.dtype)
    return aten.nll_loss_nd.default(scores, target, weight, reduction, ignore_index)
