"""The autograd layer: it passes on a part of its corpus, and a broken side is found."""

from random import Random

import pytest

from labkit.autograd.engine import ready_queue
from labkit.conformance import autograd, report
from labkit.conformance.autograd import opinfo, order, programs, training
from labkit.nn import functional
from tests.seeds import seeds

ENTRIES = ["mul", "var", "nn.functional.conv2d", "nn.functional.layer_norm", "flip"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setitem(order.GRAPHS, "small", 40)
    monkeypatch.setitem(programs.PROGRAMS, "small", 40)
    monkeypatch.setitem(training.MODELS, "small", 2)
    monkeypatch.setitem(opinfo.SAMPLES, "small", 3)


@pytest.mark.parametrize("part", [order, programs, training])
@pytest.mark.parametrize("seed", seeds(1, 20_261_120))
def test_everything_is_equal(part, seed):
    assert [each for each in part.compare(seed, "small") if not each.passed] == []


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_operator_is_equal_on_every_question(entry):
    found = list(opinfo.compare(3, "small", entry))
    assert [each for each in found if not each.passed] == []
    assert len(found) >= 3


def test_an_overload_that_labkit_has_not_is_left_out():
    tally = opinfo.run(5, "small", "round.decimals_3")
    assert tally.different == {}
    assert "aten::round.decimals" in tally.unsupported["round.decimals_3"]


def test_the_seed_chooses_the_numbers_of_the_samples():
    (info,) = (each for each in opinfo.op_db() if opinfo.name_of(each) == "mul")

    def drawn(seed):
        return [sample.input.tolist() for _, sample in opinfo._samples(info, Random(seed), 1_000)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_another_order_is_found(monkeypatch):
    monkeypatch.setattr(
        ready_queue, "_sift_up", lambda heap, hole, task: heap.__setitem__(hole, task)
    )
    assert not all(each.passed for each in order.compare(0, "small"))


def test_a_wrong_operator_is_found_and_named(monkeypatch):
    monkeypatch.setattr(functional, "relu", lambda x, inplace=False: x * 1)
    (values, *_) = opinfo.compare(0, "small", "nn.functional.relu")
    assert not values.passed
    assert "nn.functional.relu" in values.first_difference


def test_what_labkit_has_not_is_listed():
    (comparison,) = [
        report.Comparison("x", 1, 1, None, ("2 entries: a, b",)),
    ]
    assert "left out: 2 entries: a, b" in str(comparison)
    tally = opinfo.run(0, "small", "linalg.eigh")
    assert "linalg.eigh" in tally.unsupported
    assert not tally.compared
    assert autograd.NOT_MODELLED


def test_a_property_that_labkit_has_not_is_left_out_as_a_function_is():
    tally = opinfo.run(3, "small", "mH")
    assert (tally.different, tally.unsupported) == ({}, {"mH": "labkit has no Tensor.mH"})
