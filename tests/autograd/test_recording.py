"""A backward call as a list of steps."""

import pytest

import labkit as lab
from labkit.autograd import recording


def _recorded(keep=False):
    x = lab.tensor([1.0, 2.0]).requires_grad_()
    y = x * x
    z = (y + x).sum()
    y.register_hook(lambda grad: grad * 2)
    with recording() as recorder:
        z.backward(retain_graph=keep)
    return recorder


def test_every_node_is_ready_then_popped_in_the_order_it_ran():
    recorder = _recorded()
    popped = [recorder.nodes[step.node].name for step in recorder.steps if step.kind == "pop"]
    assert popped == [
        "SumBackward0",
        "AddBackward0",
        "MulBackward0",
        "torch::autograd::AccumulateGrad",
    ]
    ready = [step.node for step in recorder.steps if step.kind == "ready"]
    assert ready == [step.node for step in recorder.steps if step.kind == "pop"][1:]


def test_steps_carry_numbers_and_counts():
    recorder = _recorded()
    start, *_, end = recorder.steps
    assert (start.kind, end.kind) == ("start", "end")
    leaf = next(i for i, node in enumerate(recorder.nodes) if "Accumulate" in node.name)
    assert start.dependencies[leaf] == 3
    into_leaf = [s for s in recorder.steps if s.kind == "buffer" and s.node == leaf]
    assert [s.waiting for s in into_leaf] == [2, 0, 0][: len(into_leaf)] or into_leaf[
        -1
    ].waiting == 0
    assert into_leaf[-1].value.numbers == [5.0, 9.0]


def test_saved_tensors_show_both_versions_and_hooks_show_their_kind():
    recorder = _recorded()
    unpacked = [step for step in recorder.steps if step.kind == "unpack"]
    assert [(step.version, step.expected) for step in unpacked] == [(0, 0), (0, 0)]
    assert any(step.kind == "hook" and step.text.startswith("tensor") for step in recorder.steps)
    assert any(step.kind == "release" for step in recorder.steps)
    assert not any(step.kind == "release" for step in _recorded(keep=True).steps)


def test_accumulation_is_a_step():
    recorder = _recorded()
    (step,) = [step for step in recorder.steps if step.kind == "accumulate"]
    assert step.value.numbers == [5.0, 9.0]
    assert step.text == "set"


def test_an_error_ends_the_recording():
    x = lab.tensor([1.0]).requires_grad_()
    y = x * 1
    z = y * y
    y.add_(1)
    with recording() as recorder, pytest.raises(RuntimeError):
        z.backward()
    assert recorder.steps[-1].kind == "error"
    assert "modified by an inplace operation" in recorder.steps[-1].text


def test_large_tensors_are_described_without_their_numbers():
    x = lab.tensor([[1.0] * 20] * 20).requires_grad_()
    with recording(most_elements=10) as recorder:
        (x * 2).sum().backward()
    values = [step.value for step in recorder.steps if step.value is not None]
    assert any(value.numbers is None and value.shape == (20, 20) for value in values)


def test_outside_nothing_is_recorded():
    recorder = _recorded()
    count = len(recorder.steps)
    lab.tensor([1.0]).requires_grad_().sum().backward()
    assert len(recorder.steps) == count


def test_a_saved_tensor_of_the_wrong_version_is_a_step_before_the_error():
    x = lab.tensor([1.0]).requires_grad_()
    y = x * 1
    z = y * y
    y.add_(1)
    with recording() as recorder, pytest.raises(RuntimeError):
        z.backward()
    asked, error = recorder.steps[-2:]
    assert (asked.kind, asked.version, asked.expected) == ("unpack", 1, 0)
    assert recorder.nodes_met()[asked.node] is z.grad_fn
    assert error.kind == "error"
