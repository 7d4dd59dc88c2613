"""Five programs with a disease of their memory each, and one with two.

A   graphs that a list keeps alive, as in pytorch/pytorch#1840
B   free memory in pieces that are too small, as in pytorch/pytorch#35901
C   a block that serves again while another stream reads it, as in pytorch/pytorch#23729
D   copies that only change a layout
E   memory asked for in the innermost loop
F   A and E together
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.cases.queues import Gpu, freed_early
from labkit.course.cases.recorder import Chart, Op, events_of, record

MIB = 1 << 20
LOSSES = """\
weight = lab.ones(1024, device="cuda", requires_grad=True)


def score(batch):
    hidden = (batch * weight).relu()
    return (hidden - 1).sum()


losses = []
for step in steps(6):
    batch = lab.ones(256, 1024, device="cuda")
    losses.append(score(batch))
"""
PIECES = """\
MIB = 1 << 20
kept, scratch = [], []
for step in steps(6):
    scratch.append(empty(8 * MIB))
    kept.append(empty(2 * MIB))
scratch.clear()
result = empty(40 * MIB)
"""
TILES = """\
frame = lab.ones(64, 64, device="cuda")
bright = lab.empty(64, 64, device="cuda")
for step in steps(3):
    for y in range(0, 64, 4):
        for x in range(0, 64, 4):
            tile = frame[y : y + 4, x : x + 4]
            bright[y : y + 4, x : x + 4] = tile * 2 + 1
"""
BOTH = """\
weight = lab.ones(64, device="cuda", requires_grad=True)
history = []
for step in steps(3):
    rows = [lab.ones(64, device="cuda") * weight for row in range(128)]
    history.append(sum(row.sum() for row in rows))
"""
FRAMES = (10, 20, 30, 40, 50)


def product_chain(x: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """A product with each weight, in a layout that has to be changed for the next one."""
    for weight in weights:
        x = (weight @ x.t()).t().contiguous()
    return x


class _Ops(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """Each operator with the bytes it filled; every product begins a new step."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Op] = []
        self.step = -1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.step += name == "mm"
        given = {one.untyped_storage().data_ptr() for one in args if torch.is_tensor(one)}
        fresh = torch.is_tensor(out) and out.untyped_storage().data_ptr() not in given
        self.seen.append(Op(self.step, name, out.nbytes if fresh else 0))
        return out


def operators(function: Callable[..., Any], *args: Any) -> tuple[Op, ...]:
    """What PyTorch ran for the function, one by one."""
    with _Ops() as log:
        function(*args)
    return tuple(log.seen)


def matrices() -> tuple[torch.Tensor, list[torch.Tensor]]:
    """What patient D multiplies: 64 rows of 128, and four weights."""
    numbers = torch.Generator().manual_seed(7)
    weights = [torch.randn(128, 128, generator=numbers) / 11 for _ in range(4)]
    return torch.randn(64, 128, generator=numbers), weights


def two_streams(pace: str | int) -> tuple[Gpu, list[int]]:
    """Patient C at this pace of its queues: the GPU, and what came out."""
    gpu = Gpu(pace)
    results = freed_early(gpu, list(FRAMES), "copy", "work")
    return gpu, [gpu.read(block) for block in results]


def patient(name: str) -> Chart:
    """What is known of a patient, from "A" to "F", without its source."""
    return PATIENTS[name]()


def _streams() -> Chart:
    gpu, _ = two_streams("lazy")
    history = gpu.allocator.history
    assert history is not None
    return Chart(events_of(history.since()), gpu.allocator.snapshot(), races=tuple(gpu.races()))


PATIENTS: dict[str, Callable[[], Chart]] = {
    "A": lambda: record(LOSSES),
    "B": lambda: record(PIECES, 96 * MIB),
    "C": _streams,
    "D": lambda: Chart(ops=operators(product_chain, *matrices())),
    "E": lambda: record(TILES),
    "F": lambda: record(BOTH),
}
