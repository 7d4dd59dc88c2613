"""Training programs on an allocator of their own, some of which never let go of something."""

import sys
from collections.abc import Callable
from typing import Any

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice

PROGRAM = """
def activation(nbytes):
    return new(nbytes)


def forward(step):
    hidden = activation({hidden})
    output = activation({output})
    return Loss(new(512), (hidden, output))


def load(step):
    batch = new({batch})
    if step % {every} == 0:
        raise ValueError(step)
    return batch


def optimizer_step(step):
    if not state:
        state.extend(new({moments}) for _ in range(2))
    if step < {warm}:
        workspaces.append(new({workspace}))


def refill(window, step):
    if step % {period} == 0:
        window.clear()
    window.append(new({cached}))


def remember(step):
    cache[step % {capacity}] = new({cached})
    refill(windows[0], step)
    refill(windows[1], step + 1)
    refill(windows[2], step + 2)
    refill(windows[3], step + 3)
    refill(windows[4], step + 4)
    refill(windows[5], step + 5)


def train_step(step):
    loss = forward(step)
    optimizer_step(step)
    remember(step)
    scratch = new({batch})
    {lines}
    return loss
"""
"""Some window is emptied in each step: of two stretches shorter than a round, the second misses the
lowest moment of a window that the first has seen."""
MECHANISMS = {
    "list": ("if step % {every} == 0:", "    kept.append(new({leak}))"),
    "dict": ("seen[step] = new({leak}) if step % {every} == 0 else None",),
    "closure": ("extra = new({leak})", "hooks.append(lambda: extra)"),
    "graph": ("kept.append(loss)",),
    "exception": (
        "try:",
        "    load(step)",
        "except ValueError as error:",
        "    kept.append(error)",
    ),
    "joined": (
        "seen['all'] = new({leak} * (step + 1))",
        "scratch = None",
    ),
    "clean": ("scratch = None",),
    "handled": ("try:", "    load(step)", "except ValueError as error:", "    str(error)"),
}
"""What a step does last: the first six never let go of something, the last two do."""


Frames = tuple[tuple[int, str], ...]
"""(line of train.py, function), innermost first."""


class Memory:
    """Bytes of a program, given back when nobody holds this any more."""

    def __init__(self, program: "Program", nbytes: int) -> None:
        self.program = program
        self.address = program.allocator.malloc(nbytes)
        frames, frame = [], sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == "train.py":
                frames.append((frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back  # type: ignore[assignment]
        program.frames[self.address] = tuple(frames)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():
            return
        del self.program.frames[self.address]
        self.program.allocator.free(self.address)


class Loss:
    """The result of a forward pass; it holds what backward would need."""

    def __init__(self, value: Memory, saved: tuple[Memory, ...]) -> None:
        self.value, self.saved = value, saved


class Program:
    """A training program on an allocator of its own: a step at a time, and its snapshot."""

    MOST_STEPS = 200

    def __init__(self, text: str) -> None:
        self.allocator = CachingAllocator(SimulatedDevice(1 << 40))
        self.frames: dict[int, Frames] = {}
        self.steps = 0
        names: dict[str, Any] = {"new": lambda nbytes: Memory(self, nbytes), "Loss": Loss}
        for name in ("state", "workspaces", "kept", "hooks"):
            names[name] = []
        names["cache"], names["seen"], names["windows"] = {}, {}, [[] for _ in range(6)]
        exec(compile(text, "train.py", "exec"), names)
        self.names = names

    def step(self) -> Loss:
        """One more step; the loss is yours."""
        if self.steps == self.MOST_STEPS:
            raise RuntimeError(f"the program ends after {self.MOST_STEPS} steps")
        self.steps += 1
        loss: Loss = self.names["train_step"](self.steps - 1)
        return loss

    def snapshot(self) -> dict[str, Any]:
        """Segments and blocks as `torch.cuda.memory._snapshot` has them, with the stacks."""
        segments = self.allocator.memory_map()
        for segment in segments:
            for block in segment["blocks"]:
                block["frames"] = [
                    {"filename": "train.py", "line": line, "name": name}
                    for line, name in self.frames.get(block["address"], ())
                ]
        return {"segments": segments, "device_traces": [[]]}

    def bytes_by_stack(self) -> dict[Any, int]:
        """Bytes that live now, per stack."""
        found: dict[Frames, int] = {}
        for block in self.allocator.live_blocks():
            frames = self.frames[block.address]
            found[frames] = found.get(frames, 0) + block.size
        return {tuple(("train.py", line) for line, _ in one): found[one] for one in found}

    def close(self) -> None:
        """Everything the program holds is dropped."""
        self.names.clear()
