"""PyTorch's tree, lit by one call."""

import torch

from labkit import show
from labkit.course.sources import installed_file, pinned_files
from labkit.show.source_map import DISPATCHER, ENGINE, TREE, path_in_the_tree, stops_of


def files_of(call):
    return [stop.file for stop in stops_of(call)]


def test_a_call_without_gradients_does_not_light_the_engine():
    x = torch.ones(3)
    found = files_of(lambda: torch.sigmoid(x))
    assert DISPATCHER in found and "aten/src/ATen/RegisterCPU_N.cpp" in found
    assert ENGINE not in found


def test_backward_lights_the_engine_and_the_nodes():
    x = torch.ones(3, requires_grad=True)
    told = {stop.file: stop.why for stop in stops_of(lambda: torch.sigmoid(x).sum().backward())}
    assert told[ENGINE] == "the engine ran 3 nodes"
    assert told["torch/csrc/autograd/generated/VariableType_N.cpp"].startswith("aten::sigmoid")
    assert "torch/_tensor.py" in told  # Tensor.backward
    assert "torch/csrc/autograd/functions/accumulate_grad.cpp" in told


def test_a_word_asked_about_is_told_wherever_it_was_heard():
    x = torch.ones(3, requires_grad=True)
    stops = stops_of(lambda: torch.sigmoid(x).sum().backward(), "sigmoid")
    told = {stop.file: stop.why for stop in stops}
    assert len(told) == len(stops)
    assert told["torch/csrc/autograd/generated/Functions.cpp"] == "the node SigmoidBackward0 ran"
    cpu = told["aten/src/ATen/RegisterCPU_N.cpp"]
    assert "aten::sigmoid:" in cpu and "aten::sigmoid_backward" in cpu and "sum" not in cpu
    assert told[ENGINE] == "the engine ran 3 nodes"  # nothing there speaks of it


def test_a_python_call_that_asks_no_operator_lights_python_alone():
    found = files_of(lambda: torch.is_tensor(3))
    assert found == ["torch/__init__.py"]


def test_the_tables_are_as_before():
    before = torch._C._dispatch_dump("aten::sigmoid")
    files_of(lambda: torch.sigmoid(torch.ones(2)))
    assert torch._C._dispatch_dump("aten::sigmoid") == before


def test_a_registration_is_a_path_of_the_tree_wherever_torch_was_built():
    for text, path in [
        ("registered at /__w/pytorch/pytorch/build/aten/src/ATen/RegisterCPU_3.cpp:12",
         "aten/src/ATen/RegisterCPU_N.cpp"),
        ("registered at /pytorch/aten/src/ATen/core/MetaFallbackKernel.cpp:23",
         "aten/src/ATen/core/MetaFallbackKernel.cpp"),
        ("registered at C:/x/torch/csrc/autograd/VariableTypeManual.cpp:9",
         "torch/csrc/autograd/VariableTypeManual.cpp"),
        ("registered at <stdin>:1", ""),
    ]:  # fmt: skip
        assert path_in_the_tree(text) == path


def test_the_folders_drawn_are_folders_of_pytorch():
    there = {folder for file in pinned_files() for folder in _above(file)}
    assert [one for one in TREE if one not in there and installed_file(one) is None] == []


def _above(file):
    parts = file.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def test_the_picture_lights_files_and_folders_and_leaves_the_others_dark():
    x = torch.ones(3)
    view = show.source_map(lambda: torch.sigmoid(x), at="Dispatcher.h")
    lines = [line.strip() for line in view.panes[0]["lines"]]
    first, last = view.stations[view.frame]["lines"]
    assert first == last and lines[first - 1] == "● Dispatcher.h"
    assert {"● aten/src/ATen", "● core", "● dispatch", "· cuda", "· optim"} <= {*lines}
