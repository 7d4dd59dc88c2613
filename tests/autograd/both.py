"""One program run by labkit and by PyTorch, and what each of them has to say."""

import re
import warnings
from types import SimpleNamespace
from typing import Any

import torch
import torch.utils.checkpoint

import labkit as lab
import labkit.autograd as lab_autograd


def _lab_tensor(numbers, requires_grad=False):
    tensor = lab.tensor(numbers, dtype=lab.float64)
    return tensor.requires_grad_() if requires_grad else tensor


TORCH = SimpleNamespace(
    tensor=lambda numbers, requires_grad=False: torch.tensor(
        numbers, dtype=torch.float64, requires_grad=requires_grad
    ),
    Function=torch.autograd.Function,
    anomaly=torch.autograd.detect_anomaly,
    backward=torch.autograd.backward,
    checkpoint=torch.utils.checkpoint.checkpoint,
    enable_grad=torch.enable_grad,
    grad=torch.autograd.grad,
    graph=torch.autograd.graph,
    inference_mode=torch.inference_mode,
    is_grad_enabled=torch.is_grad_enabled,
    no_grad=torch.no_grad,
    once_differentiable=torch.autograd.function.once_differentiable,
    set_grad_enabled=torch.set_grad_enabled,
)
LAB = SimpleNamespace(
    tensor=_lab_tensor,
    Function=lab_autograd.Function,
    anomaly=lab_autograd.detect_anomaly,
    backward=lab_autograd.backward,
    checkpoint=lab_autograd.checkpoint,
    enable_grad=lab_autograd.enable_grad,
    grad=lab_autograd.grad,
    graph=lab_autograd.graph,
    inference_mode=lab_autograd.inference_mode,
    is_grad_enabled=lab_autograd.is_grad_enabled,
    no_grad=lab_autograd.no_grad,
    once_differentiable=lab_autograd.once_differentiable,
    set_grad_enabled=lab_autograd.set_grad_enabled,
)


def graph_of(root):
    """The graph as text: per node its name and where its edges lead, nodes numbered as met."""
    numbers, nodes, stack = {}, [], [root]
    while stack:
        node = stack.pop()
        if node in numbers:
            continue
        numbers[node] = len(nodes)
        nodes.append(node)
        stack.extend(each for each, _ in reversed(node.next_functions) if each is not None)
    return [
        (
            node.name().rpartition("::")[2],
            [None if to is None else (numbers[to], slot) for to, slot in node.next_functions],
        )
        for node in nodes
    ]


class Log(list):
    """What a program says: tensors become numbers, nodes become graphs."""

    def __call__(self, *said: Any) -> None:
        self.append([self._plain(each) for each in said])

    def _plain(self, value):
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if isinstance(value, list | tuple):
            return [self._plain(each) for each in value]
        if hasattr(value, "next_functions"):
            return graph_of(value)
        return _rounded(value.detach().tolist())

    def attempt(self, function):
        """The result, or the error with its text."""
        try:
            self("gave", function())
        except Exception as error:
            self(type(error).__name__, str(error).partition("(Triggered")[0])


def _rounded(value):
    return [_rounded(each) for each in value] if isinstance(value, list) else round(value, 9)


def said_by(side, program):
    """The log of one side; an error that leaves the program is its last entry."""
    log = Log()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program(side, log)
        except Exception as error:
            log(type(error).__name__, str(error))
    return list(log)


def assert_same(program):
    """Both sides say the same, word for word."""
    theirs, ours = said_by(TORCH, program), said_by(LAB, program)
    assert ours == [_as_said_since(entry) for entry in theirs]
    assert len(theirs) > 1 or theirs[0][0] not in ("AttributeError", "NameError"), theirs


def _as_said_since(entry):
    """In the words of 2.13, which 2.11 puts a little differently."""
    if isinstance(entry, list):
        return [_as_said_since(part) for part in entry]
    if not isinstance(entry, str):
        return entry
    named = re.sub(r"(of \w+?)Backward0, is at", r"\1, is at", entry)
    return named.replace("can not", "cannot")
