"""Networks trained on the device: the CPU's losses, with no step of it taken on the CPU."""

import pytest
import torch

from tests.torch_device import models
from tests.torch_device.apart import apart

LAST_BITS = 1e-5


@pytest.mark.parametrize("make", ["mlp", "cnn", "resnet", "mbconv", "transformer"])
@apart
def test_the_losses_are_the_cpus_and_nothing_falls_back(make):
    network = getattr(models, make)
    with torch.lab.no_fallbacks():
        found = models.losses(network, models.sgd, 20, "lab")
    assert found == pytest.approx(models.losses(network, models.sgd, 20, "cpu"), abs=LAST_BITS)
    assert torch.lab.fallbacks() == {}


@apart
def test_adam_trains_too():
    with torch.lab.no_fallbacks():
        found = models.losses(models.mlp, models.adamw, 5, "lab")
    assert found == pytest.approx(models.losses(models.mlp, models.adamw, 5, "cpu"), abs=LAST_BITS)


@pytest.mark.parametrize(
    "name", ["mm.out", "addmm.out", "relu", "threshold_backward.grad_input", "_log_softmax.out"]
)
@apart
def test_a_poisoned_kernel_shows_in_the_losses(name):
    """The kernels that are registered are the ones that compute: a wrong one trains wrongly."""
    from labkit.ops.pointwise.pointwise import OPERATORS
    from labkit.torch_device.start import kernels

    served = kernels().served[name]
    own = served.function

    def poisoned(*args, **kwargs):
        result = own(*args, **kwargs)
        OPERATORS["neg"].in_place(result)
        return result

    served.function = poisoned
    try:
        found = models.losses(models.mlp, models.sgd, 3, "lab")
    finally:
        served.function = own
    right = models.losses(models.mlp, models.sgd, 3, "cpu")
    assert max(abs(a - b) for a, b in zip(found, right, strict=True)) > 1e-3


@apart
def test_an_operator_without_a_kernel_is_counted_by_its_name():
    x = torch.tensor([3.0, 1.0, 2.0], device="lab")
    torch.lab.reset_fallbacks()
    assert x.erfinv().isnan().tolist() == [True, False, True]
    assert x.sort().values.tolist() == [1.0, 2.0, 3.0]
    assert torch.lab.fallbacks() == {"erfinv.out": 1, "sort.values_stable": 1}
    with torch.lab.no_fallbacks(), pytest.raises(NotImplementedError, match=r"sort\.values_stable"):
        x.sort()


@apart
def test_an_element_type_without_a_kernel_is_a_detour_too():
    x = torch.eye(2, dtype=torch.float64, device="lab")
    torch.lab.reset_fallbacks()
    assert (x @ x).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.lab.fallbacks() == {"mm.out": 1}
