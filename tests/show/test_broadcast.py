"""show.broadcast ends where PyTorch does: at the same sizes and strides, or at the same failure."""

import random
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from labkit import show


def test_each_dimension_is_a_step_from_the_right():
    widget = show.broadcast((4, 3, 2), (3, 1))
    assert [step["dim"] for step in widget.steps] == [0, -1, -2, -3, 0]
    assert [step["verdict"] for step in widget.steps] == [
        "start", "stretch", "equal", "stretch", "done"
    ]  # fmt: skip
    assert widget.sizes == [4, 3, 2]
    assert [one["expanded"] for one in widget.operands] == [[6, 2, 1], [0, 1, 0]]
    assert repr(widget) == "BroadcastView(a [4, 3, 2] with b [3, 1] gives [4, 3, 2])"


def test_a_failure_ends_at_its_dimension_with_pytorchs_words():
    widget = show.broadcast((3, 4, 5), (3, 5))
    assert widget.sizes is widget.strides is None
    assert widget.steps[-1] | {"text": ""} == {
        "dim": -2, "size": None, "verdict": "clash", "text": ""
    }  # fmt: skip
    assert "a has 4, b has 3" in widget.steps[-1]["text"]
    with pytest.raises(RuntimeError, match=re.escape(widget.message)):
        torch.ones(3, 4, 5) + torch.ones(3, 5)


def test_sizes_alone_say_nothing_of_strides_and_give_no_rule_away():
    shapes = (5, 1, 2, 3), (4, 2, 1)
    whole, bare = show.broadcast(*shapes), show.broadcast(*shapes, sizes_only=True)
    assert bare.sizes == whole.sizes == [5, 4, 2, 3]
    said = " ".join(bare.step_texts()) + bare.svg()
    assert "stretches from 1 to 4." in said
    assert not re.search("stride|copy|missing|aligned", said)
    assert "strides" in whole.svg() and "no copy" in " ".join(whole.step_texts())


def test_any_shapes_end_as_in_pytorch():
    generator = random.Random(11)
    outcomes = set()
    for _ in range(400):
        operands = [
            torch.empty([generator.choice([0, 1, 1, 2, 3]) for _ in range(generator.randrange(4))])
            for _ in range(generator.randrange(1, 4))
        ]
        operands = [tensor.mT if tensor.dim() > 1 else tensor for tensor in operands]
        widget = show.broadcast(*operands, names=[f"t{n}" for n in range(len(operands))])
        try:
            shape = list(torch.broadcast_shapes(*[tensor.shape for tensor in operands]))
        except RuntimeError:
            shape = None
        outcomes.add(shape is None)
        assert widget.sizes == shape
        assert (widget.message == "") == (shape is not None)
        for one, tensor in zip(widget.operands, operands, strict=True):
            strides = None if shape is None else list(tensor.expand(shape).stride())
            assert one["expanded"] == strides
        if shape is not None and len(operands) == 2:
            assert widget.strides == list((operands[0] + operands[1]).stride())
        ElementTree.fromstring(widget.svg())
    assert outcomes == {True, False}


def test_no_memory_is_needed_for_large_shapes():
    assert show.broadcast((10**6, 1), (1, 10**6)).sizes == [10**6, 10**6]
    assert "(3) must match" in show.broadcast((10**6, 3), (10**6, 4)).message


def test_tensors_keep_their_own_strides_and_names():
    x = torch.ones(3, 4)
    widget = show.broadcast(x.t(), np.ones(3), (4, 1))
    assert [one["name"] for one in widget.operands] == ["x.t()", "np.ones(3)", "c"]
    assert widget.operands[0]["strides"] == [1, 4]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: show.broadcast(), TypeError, "at least one"),
        (lambda: show.broadcast(3, (2,)), TypeError, "operand 1 .*int 3"),
        (lambda: show.broadcast((2,), (2, -1)), ValueError, r"operand 2 .*\(2, -1\)"),
        (lambda: show.broadcast((2, 1.5)), TypeError, r"\(2, 1.5\): a shape holds integers"),
        (lambda: show.broadcast((2, True)), TypeError, "holds integers"),
        (lambda: show.broadcast(torch.eye(2).to_sparse()), ValueError, "sparse"),
        (lambda: show.broadcast((2,), names=["a", "b"]), ValueError, "2 names .* 1 operands"),
    ],
)
def test_bad_input_is_refused_with_its_values(call, error, words):
    with pytest.raises(error, match=words):
        call()
