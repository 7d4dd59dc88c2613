"""Gradients unscaled and looked at on the device, and the next scale, by `kernels/unscale`.

The host learns neither the scale nor whether an inf was found: it does not wait.

Source   aten/src/ATen/native/cuda/AmpKernels.cu
Differs  one launch per gradient, where PyTorch takes all of them in one
"""

from collections.abc import Sequence

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import STEPS, NoKernel, blocks, check_device, read, shelf, written
from labkit.ops.cuda.registering import device_kernel

THREADS = 256
_RUNG = ("unscale", "1_warp_votes")


@device_kernel("_amp_foreach_non_finite_check_and_unscale_")
def unscale_(self: Sequence[TensorImpl], found_inf: TensorImpl, inv_scale: TensorImpl) -> None:
    """As `labkit.ops.amp_kernels.unscale_`.

    Raises   NoKernel   float64, or a gradient with gaps
    """
    check_device(found_inf, inv_scale, *self)
    for grad in self:
        if grad.dtype not in STEPS or not grad.is_non_overlapping_and_dense:
            raise NoKernel(f"its kernel walks dense halves and floats, not {grad.dtype.name}")
    for grad in self:
        n = grad.numel()
        arguments = (written(grad), written(found_inf), read(inv_scale), n)
        shelf(*_RUNG, STEPS[grad.dtype])((blocks(n, THREADS),), (THREADS,), arguments)
        grad.bump_version()
    found_inf.bump_version()


@device_kernel("_amp_update_scale_")
def update_scale_(
    self: TensorImpl,
    growth_tracker: TensorImpl,
    found_inf: TensorImpl,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> TensorImpl:
    """As `labkit.ops.amp_kernels.update_scale_`."""
    check_device(self, growth_tracker, found_inf)
    factors = (float(scale_growth_factor), float(scale_backoff_factor), int(growth_interval))
    arguments = (written(self), written(growth_tracker), read(found_inf), *factors)
    shelf(*_RUNG, "update")((1,), (1,), arguments)
    self.bump_version()
    growth_tracker.bump_version()
    return self
