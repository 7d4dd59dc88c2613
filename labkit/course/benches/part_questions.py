"""What the five parts of `seeded_bugs` are compared with: PyTorch, and the emulator's trace.

The allocator's sizes were recorded on a GPU, from PyTorch's own allocator. Keys, strides and the
engine's order are asked of the installed PyTorch, sectors of a traced kernel.

Source   c10/cuda/CUDACachingAllocator.cpp  round_size
         c10/core/DispatchKeySet.h  DispatchKeySet::highestPriorityTypeId
         torch/csrc/autograd/engine.h  CompareNodeTaskTime
         aten/src/ATen/ExpandUtils.cpp  inferExpandGeometry
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from labkit.conformance.allocator import FIXTURES
from labkit.conformance.report import Comparison
from labkit.course.benches import kernel_bench
from labkit.course.benches.seeded_bugs import ORDER
from labkit.memory.replay.recording import load_recording

Question = tuple[tuple[Any, ...], Any]
"""The arguments, and the right answer."""


def _recorded_sizes() -> list[Question]:
    """Small blocks: of large ones the allocator may leave a rest uncut."""
    without_settings = load_recording(FIXTURES / "settings_and_sizes.json.gz")["sizes"][0]
    at = without_settings["columns"].index
    asked, got, pool = at("requested"), at("block_size"), at("segment_type")
    return [((row[asked],), row[got]) for row in without_settings["rows"] if row[pool] == "small"]


def _strongest() -> list[Question]:
    chosen = [
        keys for many in range(1, len(ORDER) + 1) for keys in itertools.permutations(ORDER, many)
    ]
    return [((keys,), _strongest_of(keys)) for keys in chosen]


def _strongest_of(keys: Sequence[str]) -> str:
    sets = [torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)) for key in keys]
    together = functools.reduce(lambda one, other: one | other, sets)
    return str(together.highestPriorityTypeId()).partition(".")[2]


def _orders() -> list[Question]:
    listed = [[(10, "a"), (9, "b")], [(2, "b"), (1, "a")], [(3, "only")]]
    listed += map(list, itertools.permutations([(8, "x"), (9, "w"), (100, "v"), (11, "u")]))
    return [((ready,), _runs_first(ready)) for ready in listed]


def _runs_first(ready: Sequence[tuple[int, str]]) -> str:
    """Of nodes made in the order of these numbers, all ready at once, the one that runs first."""
    x, ran = torch.ones(1, requires_grad=True), list[str]()
    made = []
    for _, name in sorted(ready):
        product = x * 2
        assert product.grad_fn is not None
        product.grad_fn.register_prehook(lambda grads, name=name: ran.append(name))
        made.append(product)
    torch.cat(made).sum().backward()
    return ran[0]


def _expanded() -> list[Question]:
    tried = (
        ((3, 1), (1, 1), (3, 4)), ((1, 3), (3, 1), (2, 3)), ((3,), (1,), (2, 3)),
        ((3, 4), (4, 1), (3, 4)), ((3, 4), (1, 3), (3, 4)), ((1, 1), (7, 5), (2, 3)),
        ((2, 1, 3), (3, 3, 1), (5, 2, 4, 3)), ((1,), (1,), (2, 6)), ((4,), (2,), (4,)),
        ((1, 2), (9, 4), (6, 1, 2)),
    )  # fmt: skip
    return [
        (given, list(torch.empty_strided(*given[:2]).expand(given[2]).stride())) for given in tried
    ]


READ = """
extern "C" __global__ void read(const float* x, const int* at, int n, float* out) {
    if (threadIdx.x < n) out[threadIdx.x] = x[at[threadIdx.x]];
}
"""


def _touched() -> list[Question]:
    tried = (
        [0], [28], [32], [0, 0], [28, 28, 32], [0, 4, 32], [4 * lane for lane in range(32)],
        [4 * lane + 4 for lane in range(32)], [128 * lane for lane in range(32)], [60, 28, 124],
    )  # fmt: skip
    return [((addresses,), _sectors(addresses)) for addresses in tried]


def _sectors(addresses: Sequence[int]) -> int:
    at = np.array(addresses, np.int32) // 4
    x, out = np.zeros(1024, np.float32), np.zeros(32, np.float32)
    done = kernel_bench.launch(READ, "read", 1, 32, (x, at, len(at), out), trace=True)
    if done.report is None:
        raise RuntimeError(done.failure)
    return sum(one.sectors for one in done.report.select(access="read", array=done.names[0]))


ASKED: dict[str, Callable[[], list[Question]]] = {
    "round_size": _recorded_sizes, "winner": _strongest, "next_node": _orders,
    "stretched": _expanded, "sectors": _touched,
}  # fmt: skip


_kept: dict[str, list[Question]] = {}
"""No `functools.cache`: only a plain function can be put out of an answer's reach."""


def questions(name: str) -> list[Question]:
    """What a part is asked, and the answers that are not labkit's own."""
    if name not in _kept:
        _kept[name] = ASKED[name]()
    return _kept[name]


def compare(name: str, part: Callable[..., Any]) -> Comparison:
    """A part's answers beside the right ones: a row of the conformance report."""
    asked = questions(name)
    wrong = wrong_answers(name, [part(*given) for given, _ in asked])
    return Comparison(name, len(asked), len(asked) - len(wrong), wrong[0] if wrong else None)


def wrong_answers(name: str, answers: Sequence[Any]) -> list[str]:
    """A line for each answer, in the order of the questions, that is not right."""
    said = []
    for (given, right), got in zip(questions(name), answers, strict=True):
        got = list(got) if isinstance(got, tuple) else got
        if type(got) is not type(right) or got != right:
            said.append(f"{name}({', '.join(map(repr, given))}) is {got!r}, not {right!r}")
    return said
