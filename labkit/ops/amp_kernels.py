"""What a gradient scaler computes: gradients unscaled and looked at, and the next scale.

Source   aten/src/ATen/native/cpu/AmpGradScalerKernels.cpp
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy

UNSCALE = (
    "_amp_foreach_non_finite_check_and_unscale_"
    "(Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale) -> ()"
)
UPDATE = (
    "_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, "
    "float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor(a!)"
)


@kernel(UNSCALE, variants="function")
def unscale_(self: Sequence[TensorImpl], found_inf: TensorImpl, inv_scale: TensorImpl) -> None:
    """Each gradient is multiplied by `inv_scale`; `found_inf` is 1 if one held an inf or a NaN."""
    factor = _number(inv_scale)
    for grad in self:
        values = copy.values(grad)
        wide = values.astype(np.promote_types(values.dtype, np.float32))
        if not np.isfinite(wide).all():
            _set(found_inf, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            _set(grad, wide if factor == 1.0 else wide * wide.dtype.type(factor))


@kernel(UPDATE, variants="function")
def update_scale_(
    self: TensorImpl,
    growth_tracker: TensorImpl,
    found_inf: TensorImpl,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> TensorImpl:
    """The scale backs off after an inf, and grows after `growth_interval` steps without one."""
    if _number(found_inf):
        _set(self, np.float32(_number(self) * scale_backoff_factor))
        _set(growth_tracker, 0)
        return self
    successful = int(_number(growth_tracker)) + 1
    if successful == growth_interval:
        with np.errstate(over="ignore"):
            grown = np.float32(_number(self) * scale_growth_factor)
        if math.isfinite(grown):
            _set(self, grown)
        successful = 0
    _set(growth_tracker, successful)
    return self


def _number(tensor: TensorImpl) -> float:
    return float(copy.values(tensor).reshape(()))


def _set(tensor: TensorImpl, values: Any) -> None:
    copy.write(tensor, np.broadcast_to(values, tensor.sizes))
    tensor.bump_version()
