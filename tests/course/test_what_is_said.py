"""Sentences of lessons and hints that were once false, each beside the value that decides it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from labkit.course import exercises
from labkit.course.exercise import Evidence, Hint

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def prose(notebook):
    cells = json.loads((NOTEBOOKS / notebook).read_text(encoding="utf-8"))["cells"]
    said = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
    said += [cell["metadata"].get("solution", []) for cell in cells]
    return " ".join(" ".join("".join(lines) for lines in said).split())


def test_rows_of_the_sliding_window_share_as_many_numbers_as_is_said():
    first, second = torch.arange(16).as_strided((6, 4), (1, 1))[:2]
    said = {3: "neighbouring rows share three"}
    assert said[np.intersect1d(first, second).size] in prose("2_core_code/3_strides.ipynb")


def test_torch_multiplies_the_padding_with_the_weight():
    w = torch.ones(1, 1, 3, 3)
    w[0, 0, 0, 0] = torch.inf
    corner = torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), w, padding=1)[0, 0, 0, 0]
    assert corner.isnan()
    said = prose("4_vision_low_level/4_convolution_repair.ipynb")
    assert "not multiplied" not in said
    assert "kernels multiply it with the padding's zero" in said


def evidence(*inputs, kind="value", got="", about="", value=None, right=None):
    return Evidence(kind, "the input", about, "", got, "", 1, inputs, value, right)


def hinted(exercise, found):
    """The hints with a condition of their own that fire on this evidence."""
    hints = (one for one in exercises.find(exercise).hints if isinstance(one, Hint) and one.when)
    return [one.text for one in hints if one.when(found)]


@pytest.mark.parametrize(
    ("exercise", "found", "said", "not_said"),
    [
        ("start_here.places", evidence([((0, 2), (1, 1), 0)], value=2, right=0),
         "0 rows", "named twice"),
        ("start_here.places", evidence([((1, 2), (0, 0), 0)], value=2, right=1),
         "named twice", "0 rows"),
        ("convolution_repair.bug_by_picture",
         evidence(value=[("bounds", 7)], right=[("bounds", 14)]), "named right", "row above"),
        ("convolution_repair.bug_by_picture",
         evidence(value=[("stride", 14)], right=[("bounds", 14)]), "row above", "named right"),
        ("tensors.promote", evidence([("dimensioned", "uint8")], "float32"), "", "of the two"),
        ("tensors.promote", evidence([("number", 1), ("number", 2.0)], "float32"),
         "no width", "of the two"),
        ("tensors.promote", evidence([("zero-dim", "uint8"), ("zero-dim", "int8")], "float32"),
         "of the two", "no width"),
        ("autograd_engine.custom_function", evidence(got="None, a NoneType, for the second"),
         "", "gradients of None"),
        ("autograd_engine.custom_function",
         evidence(kind="raised", got="TypeError: unsupported operand *: NoneType and Tensor"),
         "gradients of None", "attribute of ctx"),
        ("autograd_engine.custom_function", evidence(got="True", about="is a Function"),
         "", "attribute of ctx"),
    ],
)  # fmt: skip
def test_a_hint_fires_on_what_it_is_about(exercise, found, said, not_said):
    hints = hinted(exercise, found)
    assert not any(not_said in hint for hint in hints)
    assert any(said in hint for hint in hints) if said else hints == []
