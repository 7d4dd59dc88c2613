"""PyTorch on the device is compared with PyTorch on the CPU, and the comparing notices."""

import pytest

from labkit.conformance import torch_device
from labkit.conformance.report import InputError
from tests.torch_device.apart import apart


@apart
def test_pytorchs_own_samples_are_answered_as_on_the_cpu():
    from labkit.conformance.torch_device import samples

    samples.ENTRIES["small"] = 8
    found = samples.comparisons(samples.run(5, "small"))
    assert len(found) >= 3
    for comparison in found:
        assert comparison.passed, str(comparison)


@apart
def test_an_index_that_pytorch_wants_on_the_cpu_stays_there():
    from labkit.conformance.autograd.opinfo import name_of, op_db
    from labkit.conformance.torch_device import samples

    samples.SAMPLES["small"] = 40
    entries = [info for info in op_db() if name_of(info) == "tensor_split"]
    found = samples.comparisons(samples.run(0, "small", entries))
    assert [comparison.first_difference for comparison in found] == [None] * 3


@apart
def test_the_cpu_is_asked_as_a_program_asks_it():
    """Inside a dispatch mode its `matrix_rank` leaves `out` alone, and `eig` answers for a loss
    that depends on a phase; both were laid to the device."""
    from labkit.conformance.autograd.opinfo import name_of, op_db
    from labkit.conformance.torch_device import samples

    samples.SAMPLES["small"] = 12
    names = ("linalg.matrix_rank", "linalg.eig")
    entries = [info for info in op_db() if name_of(info) in names]
    found = samples.comparisons(samples.run(1, "small", entries))
    assert [comparison.first_difference for comparison in found] == [None] * 4


@apart
def test_a_wrong_kernel_is_noticed_in_every_form():
    from labkit.conformance.autograd.opinfo import name_of, op_db
    from labkit.conformance.torch_device import samples
    from labkit.torch_device.start import kernels

    entries = [info for info in op_db() if name_of(info) == "mul"]
    served = kernels().served["mul.out"]
    own = served.function
    served.function = kernels().served["add.out"].function
    try:
        found = samples.comparisons(samples.run(1, "small", entries))
    finally:
        served.function = own
    assert [comparison.equal < comparison.compared for comparison in found] == [True] * 5
    assert "mul, sample" in found[0].first_difference


def test_a_process_that_cannot_compare_is_told(monkeypatch):
    monkeypatch.setenv("LABKIT_CUDA", "nowhere")
    with pytest.raises(InputError, match="ended with status 1"):
        list(torch_device.compare(0, "small"))
