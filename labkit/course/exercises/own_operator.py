"""A device and an operator of one's own: kernels registered where the dispatcher looks."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.library import Library
from labkit.dispatch.recording import recording

NOTEBOOK = "3_internals/3c_own_operator"
CONSTANT = "returns the literal answer of the example in the statement"


# --- toy_backend


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
        return f"Block(sizes={self.sizes}, strides={self.strides}, {self.device})"


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
        self.call("copy_", made, rows)
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


def _model_of(*parts: str) -> Callable[[Rng, int], tuple[Any, ...]]:
    """Small models that ask these parts of the backend."""

    def case(rng: Rng, size: int) -> tuple[Any, ...]:
        sizes = [rng.randint(0 if rng.chance(0.1) else 1, 2 + size // 3) for _ in range(2)]
        count = sizes[0] * sizes[1]
        numbers = [[float(rng.randint(-9, 9)) for _ in range(count)] for _ in range(2)]
        padded = rng.randint(0, 2)
        layout = [sizes[1] + padded, 1] if rng.chance(0.5) else [1, sizes[0] + padded]
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


def _differs(name: str) -> Any:
    def when(evidence: Any) -> bool:
        return bool(evidence.value.get(name) != evidence.right.get(name))

    return when


toy_backend = Exercise(
    id="own_operator.toy_backend",
    rules=("blocks are read and written through memory.cells, never through another device",),
    case=_model_of(*PARTS),
    expected=_right_toy,
    drive=_drive_toy,
    show=_show_toy,
    stages=(*(Stage(part, case=_model_of(part)) for part in PARTS), Stage("together")),
    cases=80,
    minutes=15,
    hints=(
        Hint("Your view no longer shares storage.", when=_differs("t shares memory")),
        Hint(
            "The new block's sizes, strides or number of cells differ. Its last element is in cell "
            "(rows - 1) * stride[0] + (columns - 1) * stride[1]; without elements it has no cells.",
            when=_differs("x"),
        ),
        Hint(
            "Register the strided view operators, then copy_: it reads by the source's strides and "
            "writes by the destination's.",
            when=_differs("x, read back"),
        ),
        "Views need no kernel that moves numbers: the same memory, other sizes and strides.",
        "Whose device is it? Ask the argument, not the key: one key serves lab:0 and lab:1.",
    ),
    must_fail=(
        "silently computes on CPU",
        "fallback hides wrong results",
        "views copied",
        "strides lost in copies",
        "is right on the default stream or device and wrong on another one",
        "returns the right value but changes one of its inputs",
        "catches every exception and returns a default",
    ),
)


# --- custom_operator

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@functools.cache
def _compiler_is_ready() -> None:
    """What PyTorch loads and starts at its first compilation is not the answer's doing."""
    torch.compile(lambda x: x * 2, backend="aot_eager")(torch.ones(2))
    torch.library.opcheck(torch.ops.aten.sin.default, (torch.ones(2, requires_grad=True),))


def _a_clip(rng: Rng, size: int) -> tuple[Any, ...]:
    _compiler_is_ready()
    dtype = FLOATS[size % 4]
    sizes = (rng.randint(2, 4), rng.randint(2, 5))
    eighths = torch.randint(-10, 10, sizes, generator=rng.generator()) * 2 + 1
    x = (eighths / 8).to(dtype)  # odd eighths: never on a bound, which is made of quarters
    # each layout with two dtypes
    x = (x, x.t(), x.repeat_interleave(2, 1)[:, ::2], x[0, 0])[size // 2 % 4]
    large = float(torch.finfo(dtype).max) / 2 * 1.5
    half = [rng.randint(1, 4) / 2 for _ in range(2)]
    target, bound = [large, large] if size == 4 or rng.chance(0.2) else half
    return x, torch.tensor(target, dtype=dtype), torch.tensor(bound, dtype=dtype)


class _Clip:
    """The answer's operator in a namespace of its own, and what is asked of it."""

    made = 0

    def __init__(self, answer: Any) -> None:
        type(self).made += 1
        self.lib = torch.library.Library(f"labkit_clip_{self.made}", "FRAGMENT")
        self.answer = answer

    def __enter__(self) -> Any:
        self.answer(self.lib)
        return getattr(torch.ops, self.lib.ns).clip.default

    def __exit__(self, *_error: object) -> None:
        self.lib._destroy()

    @staticmethod
    def opcheck(op: Any, arguments: tuple[Any, ...]) -> dict[str, str]:
        """PyTorch's own checks; the last of them traces forward and backward functionalised."""
        found = torch.library.opcheck(op, arguments, raise_exception=False)
        return {name: "SUCCESS" if said == "SUCCESS" else "failed" for name, said in found.items()}


def _drive_clip(answer: Any, x: Any, target: Any, bound: Any) -> Any:
    with _Clip(answer) as op:
        mine = x.detach().requires_grad_(), target.clone().requires_grad_(), bound.clone()
        first = op(*mine)
        moved = mine[2].clone()
        second = op(*mine)
        weight = torch.arange(first.numel(), dtype=x.dtype).reshape(first.shape) % 3
        (first * weight).sum().backward()
        grads = mine[0].grad, mine[1].grad
        again = torch.autograd.grad(second.sum(), mine[:2])
        on_meta = op(*(tensor.detach().to("meta") for tensor in mine))
        checked = _Clip.opcheck(op, (mine[0], mine[1], bound.clone()))
        torch._dynamo.reset()
        there = bound.clone()
        compiled = torch.compile(lambda *a: op(*a) + a[2], backend="aot_eager", fullgraph=True)
        together = compiled(x, target, there).detach()
    return {
        "first call": first.detach(), "bound after it": moved,
        "second call": second.detach(), "bound after both": mine[2],
        "gradients of the first": grads, "gradients of the second": again,
        "on meta": (str(on_meta.device), on_meta.dtype, tuple(on_meta.shape)),
        "opcheck": checked, "compiled, plus the bound": together, "bound after it ran": there,
    }  # fmt: skip


def _right_clip(x: Any, target: Any, bound: Any) -> Any:
    calls: list[Any] = []
    for weighted in (True, False):
        bound = bound / 2 + target / 2
        y = torch.clamp(x, -bound, bound)
        grad = torch.ones_like(y)
        if weighted:
            grad = torch.arange(y.numel(), dtype=x.dtype).reshape(y.shape) % 3
        outside = x.abs() > bound
        to_target = (grad * x.sign() * outside).sum() / 2
        calls.append((y, bound, (grad * ~outside, to_target)))
    (first, moved, grads), (second, last, again) = calls
    tests = ("schema", "autograd_registration", "faketensor", "aot_dispatch_dynamic")
    return {
        "first call": first, "bound after it": moved,
        "second call": second, "bound after both": last,
        "gradients of the first": grads, "gradients of the second": again,
        "on meta": ("meta", x.dtype, tuple(x.shape)),
        "opcheck": {f"test_{name}": "SUCCESS" for name in tests},
        "compiled, plus the bound": first + moved, "bound after it ran": moved,
    }  # fmt: skip


custom_operator = Exercise(
    id="own_operator.custom_operator",
    rung="boss",
    case=_a_clip,
    expected=_right_clip,
    drive=_drive_clip,
    cases=8,
    sizes=7,
    seconds=30.0,
    minutes=30,
    hints=(
        Hint(
            "The functionalised graph lost your update. What does the schema say about bound?",
            when=lambda e: e.kind == "value" and e.value["opcheck"] != e.right["opcheck"],
        ),
        Hint(
            "Follow target: it moves the bound by half, and every clipped element is plus or minus "
            "the bound.",
            when=lambda e: "gradients" in e.property,
        ),
        "What does the schema say about the third argument? Tensor(a!) declares a write.",
        "The gradient needs the bound this call used, and the next call moves it: save a copy.",
        "A kernel at Autograd: a torch.autograd.Function whose forward calls the operator below.",
    ),
    must_fail=(
        "mutation undeclared",
        "gradient ignores the bound's path",
        "fake kernel runs real code",
        "registered at a composite key with a hard-coded device",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        CONSTANT,
        "is right only for square, even or contiguous shapes",
    ),
)


# --- fake_pairs, transposed


def _a_fake(rng: Rng, size: int) -> tuple[int, torch.dtype, str]:
    dtype = rng.choice((torch.float32, torch.float64, torch.int64, torch.bfloat16))
    return rng.randint(0, 2 + size), dtype, rng.choice(("meta", "meta", "cpu"))


@handed_out
def _described(x: Any) -> Any:
    """What a fake kernel promises; anything but a tensor as its class."""
    if not isinstance(x, torch.Tensor):
        return type(x).__name__
    return {"shape": tuple(x.shape), "dtype": x.dtype, "device": x.device.type}


def _drive_fake(answer: Any, length: int, dtype: torch.dtype, device: str) -> Any:
    return _described(answer(torch.ones(length, dtype=dtype, device=device)))


def _fake(length: int, dtype: torch.dtype, device: str) -> Any:
    return {"shape": (length, length), "dtype": dtype, "device": device}


fake_pairs = Exercise(
    id="own_operator.fake_pairs",
    case=_a_fake,
    expected=_fake,
    drive=_drive_fake,
    show=lambda length, dtype, device: f"x of {length} numbers, {dtype}, on {device}",
    rung="warm-up",
    rules=("no number is computed: no subtraction",),
    banned=("torch.Tensor.__sub__", "torch.sub", "torch.Tensor.sub", "torch.Tensor.__rsub__"),
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "The dtype or the device is another one. x.new_empty(sizes) takes both from x.",
            when=lambda evidence: evidence.value["shape"] == evidence.right["shape"],
        ),
        Hint(
            "n numbers make n rows of n: the shape is (n, n).",
            when=lambda evidence: evidence.value["shape"] != evidence.right["shape"],
        ),
        "x.shape[0] is n. x.new_empty(n, n) has room for the result and no numbers in it.",
    ),
    must_fail=(
        "always float32",
        "always on the CPU",
        "as many numbers as x",
        "computes the result",
    ),
)


def _a_block(rng: Rng, size: int) -> tuple[Block]:
    sizes = [rng.randint(1, 3 + size // 2) for _ in range(2)]
    strides = [sizes[1] + rng.randint(0, 2), 1] if rng.chance(0.5) else [1, sizes[0]]
    offset = rng.randint(0, 3)
    cells = [float(rng.randint(-9, 9)) for _ in range(offset + 1 + sizes[0] * sizes[1] * 3)]
    return (Block(Memory(f"lab:{rng.randint(0, 3)}", cells), sizes, strides, offset),)


def _drive_view(answer: Any, block: Block) -> Any:
    view = answer(block)
    if not isinstance(view, Block):
        return type(view).__name__
    return {
        "sizes": view.sizes,
        "strides": view.strides,
        "offset": view.offset,
        "the same memory": view.memory is block.memory,
        "the block as before": (block.sizes, block.strides),
    }


def _transposed(block: Block) -> Any:
    return {
        "sizes": block.sizes[::-1],
        "strides": block.strides[::-1],
        "offset": block.offset,
        "the same memory": True,
        "the block as before": (block.sizes, block.strides),
    }


transposed = Exercise(
    id="own_operator.transposed",
    case=_a_block,
    expected=_transposed,
    drive=_drive_view,
    rung="warm-up",
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "A view shares the memory: hand block.memory on, as it is.",
            when=lambda evidence: not evidence.value["the same memory"],
        ),
        Hint(
            "The view begins where the block begins: hand its offset on.",
            when=lambda evidence: evidence.value["offset"] != evidence.right["offset"],
        ),
        "Block(memory, sizes, strides, offset), with sizes and strides in reverse order.",
    ),
    must_fail=(
        "copies the memory",
        "forgets the offset",
        "turns the sizes only",
        "turns the block itself",
    ),
)

EXERCISES = (fake_pairs, transposed, toy_backend, custom_operator)
