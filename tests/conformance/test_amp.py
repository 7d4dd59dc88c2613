"""The amp layer of `labkit conformance`; the command itself asks seed 0."""

import random

import pytest

from labkit import amp
from labkit.amp import lists
from labkit.conformance import amp as layer


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_lists_are_the_installed_torch_s(device):
    comparison = layer._lists(device)
    assert comparison.passed, str(comparison)
    assert comparison.compared > 100


def test_a_wrong_list_is_found(monkeypatch):
    moved = {"lower_precision_fp": "exp", "fp32": "mm", "promote": "neg"}
    monkeypatch.setitem(lists.LISTS, "cuda", moved)
    assert layer._SEEN[amp.policy_of("mm", "cuda")] == "float32"
    with layer._torch_autocast("cuda"):
        assert layer.treatment("mm", "cuda") == "lower"
        assert layer.treatment("exp", "cuda") == "float32"
        assert layer.treatment("neg", "cuda") == "nothing seen"
        assert layer.treatment("addcmul", "cuda") == "widest"
        assert layer.treatment("binary_cross_entropy", "cuda") == "refused"


def test_conversions_programs_and_scalers_agree():
    r = random.Random("another seed")
    for comparison in (
        layer._conversions(r, 2_000),
        layer._programs(r, 15),
        layer._scalers(r, 8),
    ):
        assert comparison.passed, str(comparison)


def test_a_scaler_that_forgets_to_back_off_is_found(monkeypatch):
    update = amp.GradScaler.update
    monkeypatch.setattr(amp.GradScaler, "update", lambda self: update(self, self.get_scale() * 1.0))
    assert not layer._scalers(random.Random("any"), 3).passed
