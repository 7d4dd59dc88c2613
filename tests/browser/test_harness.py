"""The harness itself: a cell runs, the kernel answers, a failing cell is seen."""

import pytest


def test_a_cell_runs_and_the_kernel_answers(lab):
    lab.open(["x = 6 * 7", "x"])
    assert lab.ask("x") == 42
    lab.execute("x = {'a': [1.5]}")
    assert lab.ask("x") == {"a": [1.5]}
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        lab.ask("1 / 0")
    assert lab.requests
    assert lab.requests_elsewhere() == []


def test_a_failing_cell_fails_the_test(lab):
    with pytest.raises(AssertionError, match="NameError"):
        lab.open(["no_such_name"])


def test_a_request_to_another_machine_is_noticed(lab):
    lab.requests.append("https://example.org/require.js")
    assert lab.requests_elsewhere() == ["https://example.org/require.js"]
    lab.requests.clear()
