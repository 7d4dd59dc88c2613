"""The dispatcher layer of `labkit conformance`; the command itself asks seed 0."""

import pytest

from labkit.conformance import dispatcher, tally
from labkit.conformance.dispatcher import tables
from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch import table


@pytest.mark.full
def test_small_is_equal_at_another_seed_than_0():
    found = list(dispatcher.compare(4242, "small"))
    assert [str(one) for one in found if not one.passed] == []
    assert len(found) == 18
    assert any(one.compared > 490_000 for one in found)


def test_a_forgotten_rule_is_caught(monkeypatch):
    full = dict(table.BACKENDS_OF_AUTOGRAD)
    full[DispatchKey.AutogradMTIA] = frozenset({DispatchKey.MTIA})
    monkeypatch.setattr(table, "BACKENDS_OF_AUTOGRAD", full)
    monkeypatch.setattr(table, "_EXPLICIT", table._EXPLICIT - {DispatchKey.Undefined})
    result = tables._cells(["aten::add.Tensor", "aten::zeros_like"])
    assert not result.passed
    assert "aten::zeros_like at Undefined" in result.first_difference


def test_a_child_that_dies_is_a_difference():
    parts = ["no_such_part", "calls"]
    found = list(dispatcher._in_a_child(parts, 0, "small"))
    assert [one.passed for one in found] == [False]
    assert "no_such_part" in found[0].first_difference
    assert parts == ["calls"]  # the rest is still to do, in another child


def test_a_tally_keeps_the_first_difference_short():
    one = tally.Tally("numbers")
    assert one.add(1, 1, "first")
    assert not one.add("x" * 9_000, 2, "second")
    assert not one.add(3, 4, "third")
    result = one.result()
    assert (result.compared, result.equal, result.passed) == (3, 1, False)
    assert result.first_difference.startswith("second")
    assert len(result.first_difference) < 2_500


@pytest.mark.parametrize("sentence", dispatcher.NOT_MODELLED)
def test_what_is_not_modelled_is_said(sentence):
    assert len(sentence) > 20
