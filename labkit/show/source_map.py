"""`show.source_map`: PyTorch's source tree, lit where one call went."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from labkit.widgets.code.code_view import CodeView

TREE = (
    "torch", "torch/nn", "torch/optim", "torch/distributed", "torch/csrc", "torch/csrc/autograd",
    "torch/csrc/jit", "aten/src/ATen", "aten/src/ATen/core", "aten/src/ATen/native", "c10",
    "c10/core", "c10/util", "c10/cuda",
)  # fmt: skip
"""Folders drawn whether a call touches them or not."""
IN_THE_TREE = re.compile(
    r"(?:^|/)((?:aten/src|torch/csrc|c10|torch)/\S+?\.(?:cpp|cu|h|py))(?::\d+|$)"
)
PIECE = re.compile(r"_\d+\.cpp$")
DISPATCHER = "aten/src/ATen/core/dispatch/Dispatcher.h"
ENGINE = "torch/csrc/autograd/engine.cpp"
EVALUATES = "autograd::engine::evaluate_function: "


class Stop(NamedTuple):
    """One file that the call went to, and what told of it."""

    file: str
    why: str


def source_map(
    call: Callable[[], Any], *, about: str = "", at: int | str | None = None
) -> CodeView:
    """The call has run, three times, and the tree shows where it was heard, file by file.

    Lit is what was heard: Python files by their calls, kernels by stand-ins in the dispatcher's
    table, nodes and memory by the profiler. C++ that reports nothing stays dark.

    call   a function without arguments, which may be called again
    about  a word: a step says all that was heard about it, where a file was heard more than once
    at     the step to open at: its number, from 1, or words of its text
    """
    return _drawn(stops_of(call, about)).open_at(at)


def stops_of(call: Callable[[], Any], about: str = "") -> list[Stop]:
    """The files that the call went to, each once, with what told of it.

    A file that was heard more than once says what told of it first; where something told `about`
    a word (of any case), it says all of that instead.
    """
    python = _python_files(call)
    heard = _profiled(call)
    kernels = _kernels([name for name in heard if name.startswith("aten::")], call)
    found = [Stop(file, "a function of this file was called") for file in python]
    if kernels:
        found.append(Stop(DISPATCHER, "kernels were looked up in its tables"))
    found += [Stop(file, f"{op}: its kernel for {slot}") for op, slot, file in kernels]
    if "[memory]" in heard:
        found.append(Stop("c10/core/CPUAllocator.cpp", "memory was asked for or given back"))
    nodes = [name.removeprefix(EVALUATES) for name in heard if name.startswith(EVALUATES)]
    if nodes:
        found.append(Stop(ENGINE, f"the engine ran {len(nodes)} nodes"))
        found += [Stop(_file_of_node(name), f"the node {name} ran") for name in nodes]
    told: dict[str, list[str]] = {}
    for stop in found:
        told.setdefault(stop.file, []).append(stop.why)
    return [Stop(file, _said(whys, about)) for file, whys in told.items()]


def _said(whys: list[str], about: str) -> str:
    """All of these that speak about the word, else the first."""
    fitting = [why for why in whys if about and about.casefold() in why.casefold()]
    return "; ".join(fitting) or whys[0]


def path_in_the_tree(text: str) -> str:
    """The file of PyTorch's tree that a text names ("registered at .../c10/x.cpp:6"), or "".

    Scripts write some files in pieces, VariableType_0.cpp and so on: each is VariableType_N.cpp.
    """
    found = IN_THE_TREE.search(text)
    return PIECE.sub("_N.cpp", found[1]) if found else ""


def _python_files(call: Callable[[], Any]) -> list[str]:
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parents[1]
    heard: dict[str, None] = {}

    def note(frame: Any, event: str, _function: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{package}/torch/"):
            heard[Path(frame.f_code.co_filename).relative_to(package).as_posix()] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(heard)


def _profiled(call: Callable[[], Any]) -> list[str]:
    """The names of the profiler's events, in their order, each once."""
    from torch.autograd.profiler_legacy import profile

    with profile(profile_memory=True) as events:
        call()
    return list(dict.fromkeys(event.name for event in events.function_events))


def _kernels(bases: list[str], call: Callable[[], Any]) -> list[tuple[str, str, str]]:
    """Operator, slot and file of every kernel that ran, each once, by the operators' order."""
    import torch

    from labkit.dispatch.torch_operator import is_stale
    from labkit.dispatch.torch_recording import recording_torch

    every = torch._C._dispatch_get_all_op_names()
    names = [one for base in bases for one in every if one.partition(".")[0] == base]
    with ExitStack() as stack:
        logs = [stack.enter_context(recording_torch(one)) for one in names if not is_stale(one)]
        call()
    runs = [run for log in logs for run in log]
    told = [(run.operator, str(run.slot), path_in_the_tree(run.kernel)) for run in runs]
    return [one for one in dict.fromkeys(told) if one[2]]


def _file_of_node(name: str) -> str:
    if name == "torch::autograd::AccumulateGrad":
        return "torch/csrc/autograd/functions/accumulate_grad.cpp"
    return "torch/csrc/autograd/generated/Functions.cpp"


def _drawn(stops: list[Stop]) -> CodeView:
    """The tree as lines, a walk through those that are lit."""
    lit = {path for stop in stops for path in (stop.file, *_above(stop.file))}
    paths = sorted({*TREE, *lit}, key=lambda path: path.split("/"))
    lines = []
    for path in paths:
        above = _above(path)
        label = path.removeprefix(f"{above[0]}/") if above else path
        sign = "\N{BLACK CIRCLE}" if path in lit else "\N{MIDDLE DOT}"
        lines.append(f"{'    ' * len(above)}{sign} {label}")
    stations = [
        {"pane": 0, "lines": [paths.index(stop.file) + 1] * 2, "text": f"{stop.file}: {stop.why}"}
        for stop in stops
    ]
    title = "PyTorch's tree; \N{BLACK CIRCLE} is where the call was heard"
    return CodeView([{"title": title, "lines": lines}], stations=stations)


def _above(path: str) -> list[str]:
    """The folders above a path that are drawn, nearest first."""
    parts = path.split("/")
    every = ["/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]
    return [one for one in every if one not in ("aten", "aten/src")]
