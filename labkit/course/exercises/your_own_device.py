"""A device of one's own: its strides, its memory, its current device and stream."""

import contextlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import torch

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._device_programs import (
    SWALLOWED,
    Step,
    asks_differ,
    drive_tensors,
    drive_threads,
    fewer_steps,
    fewer_turns,
    freed,
    held_picture,
    readings_picture,
    said_of_tensors,
    said_of_threads,
    tensor_program,
    thread_program,
)
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "3_internals/6_your_own_device"

# --- given_back


def _comings(rng: Rng, size: int) -> tuple[list[Step]]:
    steps = tensor_program(rng, size, "views")
    return ([step[:2] if step[0] == "new" else step for step in steps],)


given_back = Exercise(
    id="your_own_device.given_back",
    rung="warm-up",
    case=_comings,
    expected=lambda program: [name for _, name in freed(program)],
    smaller=lambda program: ((some,) for some in fewer_steps(program)),
    cases=80,
    minutes=4,
    hints=(
        Hint(
            "A view's own name came back, and a view has no storage: a view of a view is on the "
            "storage of the first tensor.",
            when=lambda e: (
                isinstance(e.value, list)
                and any(["view", name] == [*step[:2]] for name in e.value for step in e.inputs[0])
            ),
        ),
        Hint(
            "One is missing, or one is too many. A storage goes back once: at the drop after which "
            "no living tensor is on it. What still lives at the end has not gone back.",
            when=lambda e: isinstance(e.value, list) and sorted(e.value) != sorted(e.right),
        ),
        Hint(
            "The right ones, in another order. Which drop leaves a storage without a tensor?",
            when=lambda e: isinstance(e.value, list) and sorted(e.value) == sorted(e.right),
        ),
        "Keep a dictionary: tensor -> storage. A view takes the entry of the tensor it views.",
        "A drop removes an entry. Is its storage still among the values?",
    ),
    must_fail=(
        "goes by the tensor that made the storage",
        "does not know a view of a view",
        "names the last tensor",
        FIRST,
    ),
)

# --- steps


def _a_matrix(rng: Rng, size: int) -> tuple[torch.Tensor, int, int]:
    rows, cols = rng.randint(1, 2 + size // 2), rng.randint(1, 2 + size // 2)
    kind = rng.choice(("whole", "row", "column", "turned", "number", "gaps", "line"))
    shapes = {"whole": (rows, cols), "row": (1, cols), "column": (rows, 1), "number": (),
              "turned": (cols, rows), "gaps": (rows, 2 * cols), "line": (cols,)}  # fmt: skip
    x = rng.tensor(shapes[kind])
    if kind == "turned":
        x = x.t()
    return x[:, ::2] if kind == "gaps" else x, rows, cols


def _smaller_matrix(
    x: torch.Tensor, rows: int, cols: int
) -> Iterator[tuple[torch.Tensor, int, int]]:
    shape = [1] * (2 - x.dim()) + list(x.shape)
    if rows > 1:
        yield x if shape[0] == 1 else x[:-1], rows - 1, cols
    if cols > 1:
        yield x if shape[1] == 1 else x[..., :-1], rows, cols - 1


@handed_out
def _places(strides: Any, rows: int, cols: int) -> dict[str, int]:
    """The place in x to which the strides lead, for each element of the matrix."""
    down, along = strides
    every = [(r, c) for r in range(rows) for c in range(cols)]
    return {f"element ({r}, {c}) is at": r * down + c * along for r, c in every}


steps = Exercise(
    id="your_own_device.steps",
    rung="warm-up",
    case=_a_matrix,
    expected=lambda x, rows, cols: _places(x.expand(rows, cols).stride(), rows, cols),
    drive=lambda answer, x, rows, cols: _places(answer(x, rows, cols), rows, cols),
    show=lambda x, rows, cols: (
        f"x of shape {tuple(x.shape)} and strides {x.stride()}, read as {rows} x {cols}"
    ),
    smaller=_smaller_matrix,
    cases=80,
    minutes=3,
    hints=(
        Hint(
            "x is a single number, of shape (): it has no stride. Every element of the matrix is "
            "that number. How far apart are they?",
            when=lambda e: e.inputs[0].dim() == 0,
        ),
        Hint(
            "x has one row and the matrix several, or one column and the matrix several: they all "
            "read the same one. How far apart are they then?",
            when=lambda e: tuple(e.inputs[0].shape) != e.inputs[1:],
        ),
        Hint(
            "x.stride() of a matrix is the pair. It also knows a transpose, and gaps.",
            when=lambda e: tuple(e.inputs[0].shape) == e.inputs[1:],
        ),
        "A matrix that expand made larger says 0 where an element is read again and again.",
    ),
    must_fail=(
        "the strides of x itself",
        "as if x had no gaps",
        "repeats rows and never columns",
    ),
)

# --- allocator_under_torch


def _tensors(*extra: str, counts: bool = False) -> Any:
    return lambda rng, size: (tensor_program(rng, size, *extra), counts)


def _serving(pool: Any) -> Any:
    """What serves tensors rightly; in a function, out of an answer's reach."""

    class Right:
        def __init__(self, pool: Any) -> None:
            self.pool = pool
            self.held: dict[str, tuple[int, bool]] = {}

        def empty(self, name: str, nbytes: int, stream: int) -> int:
            self.held[name] = self.pool.malloc(nbytes, stream), True
            return self.held[name][0]

        def pinned(self, name: str, nbytes: int) -> int:
            self.held[name] = self.pool.host(nbytes), False
            return self.held[name][0]

        def view(self, name: str, of: str) -> int:
            self.held[name] = self.held[of]
            return self.held[name][0]

        def drop(self, name: str) -> None:
            address, on_device = self.held.pop(name)
            if (address, on_device) not in self.held.values():
                (self.pool.free if on_device else self.pool.host_free)(address)

        def allocated(self) -> int:
            blocks = {address for address, on_device in self.held.values() if on_device}
            return sum(self.pool.size(address) for address in blocks)

    return Right(pool)


allocator_under_torch = Exercise(
    id="your_own_device.allocator_under_torch",
    case=_tensors("views", "streams", "pinned", counts=True),
    expected=lambda program, counts: drive_tensors(_serving, program, counts),
    drive=drive_tensors,
    picture=held_picture,
    show=lambda program, counts: said_of_tensors(program),
    smaller=lambda program, counts: ((some, counts) for some in fewer_steps(program)),
    stages=(
        Stage("blocks", case=_tensors()),
        Stage("views", case=_tensors("views")),
        Stage("streams", case=_tensors("views", "streams")),
        Stage("pinned", case=_tensors("views", "streams", "pinned")),
        Stage("allocated"),
    ),
    cases=80,
    minutes=13,
    hints=(
        Hint(
            "empty, pinned and view return the address of the tensor.",
            when=lambda e: any(address is None for _, address in e.value["addresses"]),
        ),
        Hint(
            "Pinned memory is host memory: pool.host gives it, pool.host_free takes it back.",
            stage="pinned",
        ),
        Hint(
            "allocated() is about blocks of the device: each block once, with pool.size.",
            stage="allocated",
        ),
        Hint(
            "The pool was asked for other memory than the program asks for. Does your request hand "
            "the stream on?",
            when=asks_differ("malloc"),
        ),
        Hint(
            "A block goes back when no tensor is left on it: not before, and not later. A view is "
            "a tensor on the block of another one.",
            when=asks_differ("free"),
        ),
        "Keep a dictionary: tensor -> address. A view gets the address of the tensor it views.",
    ),
    must_fail=(
        "frees on tensor death",
        "ignores stream",
        "takes pinned memory from the device",
        "gives pinned memory to free",
        "stores the address of a view and does not return it",
        "counts bytes requested as allocated",
        "counts a block once for each view",
        "never frees",
    ),
)

# --- guard_and_generator


def _lab(count: int) -> Any:
    """Devices that are right; in a function, out of an answer's reach."""

    class Right:
        def __init__(self, count: int) -> None:
            self.here = threading.local()
            self.generators = [random.Random(0) for _ in range(count)]

        def state(self) -> Any:
            if not hasattr(self.here, "device"):
                self.here.device, self.here.streams = 0, {}
            return self.here

        def current(self) -> tuple[int, int]:
            state = self.state()
            return state.device, state.streams.get(state.device, 0)

        @contextlib.contextmanager
        def device(self, index: int) -> Iterator[None]:
            state = self.state()
            before, state.device = state.device, index
            try:
                yield
            finally:
                state.device = before

        @contextlib.contextmanager
        def stream(self, index: int, number: int) -> Iterator[None]:
            state = self.state()
            before = state.streams.get(index, 0)
            with self.device(index):
                state.streams[index] = number
                try:
                    yield
                finally:
                    state.streams[index] = before

        def seed(self, index: int, number: int) -> None:
            self.generators[index].seed(number)

        def draw(self) -> float:
            return self.generators[self.current()[0]].random()

    return Right(count)


def _threads(*extra: str) -> Any:
    return lambda rng, size: (thread_program(rng, size, *extra),)


guard_and_generator = Exercise(
    id="your_own_device.guard_and_generator",
    case=_threads("raises", "threads", "streams", "draws"),
    expected=lambda program: drive_threads(_lab, program),
    drive=drive_threads,
    picture=readings_picture,
    show=said_of_threads,
    smaller=lambda program: ((some,) for some in fewer_turns(program)),
    stages=(
        Stage("nested", case=_threads()),
        Stage("errors", case=_threads("raises")),
        Stage("threads", case=_threads("raises", "threads")),
        Stage("streams", case=_threads("raises", "threads", "streams")),
        Stage("generators"),
    ),
    cases=60,
    minutes=15,
    processes=True,
    hints=(
        Hint("Leaving restores what was current on entering, whatever that was.", stage="nested"),
        Hint(
            "The error of the block ends in yours. A finally lets it go on.",
            when=lambda e: SWALLOWED in e.value.values(),
            stage="errors",
        ),
        Hint(
            "An error went through the block, and the device before it is not back. What runs in "
            "any case?",
            stage="errors",
        ),
        Hint(
            "One thread sees what the other one chose. Keep what is current in self.here: its "
            "attributes are other ones in each thread.",
            stage="threads",
        ),
        Hint(
            "A stream belongs to a device: each device has its own current one, and leaving "
            "restores the device and that device's stream.",
            stage="streams",
        ),
        Hint(
            "draw() takes the generator of the device that is current in its thread. "
            "seed(index, number) is about the device with this index, whichever is current.",
            when=lambda e: any(step[1] == "seed" for step in e.inputs[0]),
            stage="generators",
        ),
        Hint(
            "Each device draws from a generator of its own; both threads share it.",
            stage="generators",
        ),
        "On entering, keep in a local variable what was current. On leaving, put it back.",
    ),
    must_fail=(
        "global instead of thread-local device",
        "not restored on exception",
        "one generator for both",
        "stream forgotten with the device",
        "goes back to device 0",
        "a generator for each thread",
        "seeds the current device",
        "sets the stream of the current device",
        "swallows the error",
        "one stream for all devices",
    ),
)

EXERCISES = (given_back, steps, allocator_under_torch, guard_and_generator)
