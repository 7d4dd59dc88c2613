"""A backend of one's own: four kernels that a dispatcher calls, and what each call touched."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.library import Library
from labkit.dispatch.recording import recording


class Memory:
    """Cells on one device: "cpu", or "lab:0", "lab:1", ..."""

    def __init__(self, device: str, cells: list[float]) -> None:
        self.device, self.cells = device, cells


class Block:
    """A strided tensor: element (i, j) is in cell offset + i * strides[0] + j * strides[1]."""

    def __init__(
        self, memory: Memory, sizes: list[int], strides: list[int], offset: int = 0
    ) -> None:
        self.memory, self.offset = memory, offset
        self.sizes, self.strides = list(sizes), list(strides)

    @property
    def device(self) -> str:
        """Where the memory is."""
        return self.memory.device

    @property
    def _key_set(self) -> DispatchKeySet:
        return DispatchKeySet("CPU" if self.device == "cpu" else "PrivateUse1")

    def places(self) -> list[int]:
        """The cell of every element, in row-major order."""
        every = itertools.product(*map(range, self.sizes))
        return [
            self.offset + sum(i * s for i, s in zip(index, self.strides, strict=True))
            for index in every
        ]

    def __repr__(self) -> str:
        return f"Block({self.sizes}, {self.strides}, offset {self.offset}, on {self.device})"


def drawn(blocks: dict[str, Block]) -> Any:
    """The elements of blocks of two dimensions; "-" where there is no such cell."""
    from labkit.widgets.cuda.tile_view import TileView

    def cell(block: Block, place: int) -> str:
        cells = block.memory.cells
        return f"{cells[place]:g}" if 0 <= place < len(cells) else "-"

    grids = []
    for name, block in blocks.items():
        if places := block.places():
            values = np.array([cell(block, place) for place in places])
            grids.append({"name": name, "values": values.reshape(block.sizes)})
    return TileView(grids) if grids else None


TOY_SCHEMAS = (
    "empty_strided(Tensor like, int[] size, int[] stride) -> Tensor",
    "copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)",
    "add(Tensor self, Tensor other) -> Tensor",
    "t(Tensor(a) self) -> Tensor(a)",
    "relu(Tensor self) -> Tensor",
    "neg(Tensor self) -> Tensor",
    "mul(Tensor self, Tensor other) -> Tensor",
)


class _Bench:
    """A dispatcher with the toy operators, the answer's kernels in it, and CPU kernels besides."""

    def __init__(self, answer: Any, device: str) -> None:
        self.world = Dispatcher()
        self.lib = Library("toy", "DEF", dispatcher=self.world)
        for schema in TOY_SCHEMAS:
            self.lib.define(schema)
        for name in ("relu", "neg", "mul"):
            self.lib.impl(name, lambda x, *rest: x, "CPU")
        answer(self.lib, Library("_", "IMPL", dispatcher=self.world))
        self.device = device
        self.returned = False

    def call(self, name: str, *arguments: Any) -> Any:
        """The operator is called; a missing kernel is a RuntimeError: a stub is something else."""
        try:
            return self.world.find(f"toy::{name}")(*arguments)
        except NotImplementedError as error:
            if not str(error):
                raise
            raise RuntimeError(f"toy::{name}: {error}") from error

    def error(self, name: str, *arguments: Any) -> str:
        """What the call says when it refuses, or what it returned."""
        try:
            return f"returned {self.world.find(f'toy::{name}')(*arguments)!r}"
        except (NotImplementedError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"

    def refuses(self, name: str, arguments: tuple[Any, ...], *words: str) -> str:
        """The word refused, or what happened instead."""
        said = self.error(name, *arguments)
        good = "Error: " in said and all(word in said for word in words)
        return "refused" if good else f"should raise and name {words}: {said}"

    def on_device(self, values: list[float], like: Block, strides: list[int]) -> Block:
        """The values, copied from the CPU to where `like` is, laid out with the strides."""
        made: Block = self.call("empty_strided", like, like.sizes, strides)
        rows = Block(Memory("cpu", list(values)), like.sizes, [like.sizes[1], 1])
        self.returned = self.call("copy_", made, rows) is made
        return made

    def added(self, x: Block, b: "Numbers", like: Block) -> dict[str, Any]:
        """What `add` makes of x and the values b, which lie there by columns."""
        bias = self.on_device(b, like, [1, like.sizes[0]])
        kept = list(x.memory.cells), list(bias.memory.cells)
        total = self.call("add", x, bias)
        return {
            "sum": (total.device, total.sizes, total.strides, len(total.memory.cells)),
            "the sum has memory of its own": total.memory not in (x.memory, bias.memory),
            "inputs as before": kept == (x.memory.cells, bias.memory.cells),
            "x + b": self.values(total),
        }

    def values(self, block: Block) -> list[float]:
        """The elements, through a copy to the CPU whose rows lie backwards to its columns."""
        rows, columns = block.sizes
        there = Block(Memory("cpu", [-1.0] * (1 + 2 * rows * columns)), block.sizes, [2, 2 * rows])
        there.offset = 1
        self.call("copy_", there, block)
        return [there.memory.cells[place] for place in there.places()]


Numbers = list[float]
PARTS = ("copies", "view", "add", "fallback")


def _of_no_elements(rng: Rng) -> tuple[list[int], list[int]]:
    """Sizes and strides of a block of size 0; the strides would reach beyond its first cell."""
    many, gap = rng.randint(2, 3), rng.randint(1, 3)
    return rng.choice((([0, many], [1, gap]), ([many, 0], [gap, 1])))


def _model_of(*parts: str) -> Callable[[Rng, int], tuple[Any, ...]]:
    """Small models that ask these parts of the backend."""

    def case(rng: Rng, size: int) -> tuple[Any, ...]:
        sizes = [rng.randint(1, 2 + size // 3) for _ in range(2)]
        padded = rng.randint(0, 2)
        layout = [sizes[1] + padded, 1] if rng.chance(0.5) else [1, sizes[0] + padded]
        if size > 2 and rng.chance(0.2):
            sizes, layout = _of_no_elements(rng)
        count = sizes[0] * sizes[1]
        numbers = [[float(rng.randint(-9, 9)) for _ in range(count)] for _ in range(2)]
        gap = rng.choice(("relu", "neg"))
        return rng.randint(0, 3), sizes, layout, numbers[0], numbers[1], gap, parts

    return case


def _drive_toy(
    answer: Any,
    index: int,
    sizes: list[int],
    layout: list[int],
    a: Numbers,
    b: Numbers,
    gap: str,
    parts: tuple[str, ...],
) -> Any:
    device = f"lab:{index}"
    bench = _Bench(answer, device)
    seed = Block(Memory(device, [0.0] * (sizes[0] * sizes[1])), sizes, [sizes[1], 1])
    said: dict[str, Any] = {}
    with recording(bench.world) as runs:
        x = bench.on_device(a, seed, layout)
        said["x"] = (x.device, x.sizes, x.strides, len(x.memory.cells))
        said["copy_ returns self"] = bench.returned
        said["x, read back"] = bench.values(x)
        if "view" in parts:
            flipped = bench.call("t", x)
            said["t(x)"] = (flipped.device, flipped.sizes, flipped.strides)
            said["t shares memory"] = flipped.memory is x.memory
        if "add" in parts:
            said |= bench.added(x, b, seed)
    if "add" in parts:
        elsewhere = Block(Memory(f"lab:{index + 1}", [0.0] * len(a)), sizes, [sizes[1], 1])
        said["two devices"] = bench.refuses("add", (x, elsewhere), device, elsewhere.device)
    said["kernels run on"] = sorted({str(run.slot) for run in runs})
    if "fallback" in parts:
        for name, arguments in ((gap, (x,)), ("mul", (x, x))):
            words = "NotImplementedError", f"toy::{name}", device
            said[f"{name} on {device}"] = bench.refuses(name, arguments, *words)
    return said


def _right_toy(
    index: int,
    sizes: list[int],
    layout: list[int],
    a: Numbers,
    b: Numbers,
    gap: str,
    parts: tuple[str, ...],
) -> Any:
    (rows, columns), device = sizes, f"lab:{index}"
    count = rows * columns
    room = 1 + (rows - 1) * layout[0] + (columns - 1) * layout[1] if count else 0
    said: dict[str, Any] = {"x": (device, sizes, layout, room), "x, read back": a}
    said["copy_ returns self"] = True
    if "view" in parts:
        said |= {"t(x)": (device, sizes[::-1], layout[::-1]), "t shares memory": True}
    if "add" in parts:
        said |= {
            "sum": (device, sizes, [columns, 1], count),
            "the sum has memory of its own": True,
            "inputs as before": True,
            "x + b": [left + right for left, right in zip(a, b, strict=True)],
            "two devices": "refused",
        }
    said["kernels run on"] = ["PrivateUse1"]
    if "fallback" in parts:
        said |= {f"{gap} on {device}": "refused", f"mul on {device}": "refused"}
    return said


def _show_toy(
    index: int,
    sizes: list[int],
    layout: list[int],
    a: Numbers,
    b: Numbers,
    gap: str,
    parts: tuple[str, ...],
) -> str:
    block = f"x on lab:{index}, sizes {sizes}, strides {layout}, elements {a}"
    return f"{block}; b is {b}" if "add" in parts else block


def _numbers_drawn(case: Case, got: Any, right: Any) -> Any:
    """The first numbers that came back wrong, beside those that should."""
    sizes = case.inputs[1]
    for name in ("x, read back", "x + b"):
        yours = got.get(name) if isinstance(got, dict) else None
        if yours and yours != right.get(name) and len(yours) == sizes[0] * sizes[1]:
            pairs = {f"{name}: right": right[name], f"{name}: yours": yours}
            rows = [sizes[1], 1]
            return drawn({n: Block(Memory("cpu", v), sizes, rows) for n, v in pairs.items()})
    return None


def _differs(name: str) -> Any:
    def when(evidence: Any) -> bool:
        return bool(evidence.value.get(name) != evidence.right.get(name))

    return when


def _not_there_yet(evidence: Any) -> bool:
    names = ("empty_strided", "copy_", "t", "add")
    return any(f"RuntimeError: toy::{name}: " in evidence.got for name in names)


toy_backend = Exercise(
    id="own_operator.toy_backend",
    rules=("the numbers of a block are in memory.cells, whatever its device",),
    case=_model_of(*PARTS),
    expected=_right_toy,
    drive=_drive_toy,
    show=_show_toy,
    picture=_numbers_drawn,
    stages=(*(Stage(part, case=_model_of(part)) for part in PARTS), Stage("together")),
    cases=80,
    minutes=15,
    hints=(
        Hint(
            "One of the four kernels is not there yet. Register each: lib.impl(name, function, "
            '"PrivateUse1").',
            when=_not_there_yet,
        ),
        Hint("Your view no longer shares storage.", when=_differs("t shares memory")),
        Hint(
            "The new block is on another device than `like`: ask the argument for its device.",
            when=lambda evidence: evidence.value["x"][0] != evidence.right["x"][0],
        ),
        Hint(
            "The new block's sizes, strides or number of cells differ. Its last element is in cell "
            "(rows - 1) * stride[0] + (columns - 1) * stride[1]; without elements it has no cells.",
            when=lambda evidence: (
                "list assignment index" in evidence.got or _differs("x")(evidence)
            ),
        ),
        Hint("copy_ returns self.", when=_differs("copy_ returns self")),
        Hint(
            "copy_ reads by the source's strides and writes by the destination's: places() says "
            "where each element lies.",
            when=lambda evidence: (
                "list index" in evidence.got or _differs("x, read back")(evidence)
            ),
        ),
        Hint(
            "The sum has strides [columns, 1] and a cell for every element; the elements of both "
            "come by places().",
            when=lambda evidence: _differs("sum")(evidence) or _differs("x + b")(evidence),
        ),
        Hint(
            "Views need no kernel that moves numbers: the same memory, other sizes and strides.",
            stage="view",
        ),
        "Whose device is it? Ask the argument, not the key: one key serves lab:0 and lab:1.",
    ),
    must_fail=(
        "silently computes on CPU",
        "fallback hides wrong results",
        "views copied",
        "strides lost in copies",
        "copy_ returns nothing",
        "as many cells as elements",
        "has cells without elements",
        "strides lost in the sum",
        "is right on the default stream or device and wrong on another one",
        "returns the right value but changes one of its inputs",
        "catches every exception and returns a default",
    ),
)
