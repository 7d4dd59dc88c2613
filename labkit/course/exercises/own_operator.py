"""A device and an operator of one's own: kernels registered where the dispatcher looks."""

import itertools
from typing import Any

import torch

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.course.exercise import Exercise, Hint, Rng
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

    def values(self, block: Block) -> list[float]:
        """The elements, through a copy to the CPU whose rows lie backwards to its columns."""
        rows, columns = block.sizes
        there = Block(Memory("cpu", [-1.0] * (1 + 2 * rows * columns)), block.sizes, [2, 2 * rows])
        there.offset = 1
        self.call("copy_", there, block)
        return [there.memory.cells[place] for place in there.places()]


Numbers = list[float]


def _a_model(rng: Rng, size: int) -> tuple[Any, ...]:
    sizes = [rng.randint(0 if rng.chance(0.1) else 1, 2 + size // 3) for _ in range(2)]
    count = sizes[0] * sizes[1]
    numbers = [[float(rng.randint(-9, 9)) for _ in range(count)] for _ in range(2)]
    padded = rng.randint(0, 2)
    layout = [sizes[1] + padded, 1] if rng.chance(0.5) else [1, sizes[0] + padded]
    return rng.randint(0, 3), sizes, layout, numbers[0], numbers[1], rng.choice(("relu", "neg"))


def _drive_toy(
    answer: Any, index: int, sizes: list[int], layout: list[int], a: Numbers, b: Numbers, gap: str
) -> Any:
    device = f"lab:{index}"
    bench = _Bench(answer, device)
    seed = Block(Memory(device, [0.0] * (sizes[0] * sizes[1])), sizes, [sizes[1], 1])
    with recording(bench.world) as runs:
        x = bench.on_device(a, seed, layout)
        flipped = bench.call("t", x)
        mirror = Block(seed.memory, sizes[::-1], [sizes[0], 1])
        bias = bench.on_device(b, mirror, [sizes[0], 1])
        kept = list(x.memory.cells), list(bias.memory.cells)
        total = bench.call("add", flipped, bias)
        said = {
            "x": (x.device, x.sizes, x.strides, len(x.memory.cells)),
            "t(x)": (flipped.device, flipped.sizes, flipped.strides),
            "t shares memory": flipped.memory is x.memory,
            "add": (total.device, total.sizes, total.strides, len(total.memory.cells)),
            "add has memory of its own": total.memory not in (x.memory, bias.memory),
            "inputs as before": kept == (x.memory.cells, bias.memory.cells),
            "add(t(x), b)": bench.values(total),
            "x, read back": bench.values(x),
        }
    elsewhere = Block(Memory(f"lab:{index + 1}", [0.0] * len(a)), sizes, [sizes[1], 1])
    return said | {
        "kernels run on": sorted({str(run.slot) for run in runs}),
        f"{gap} on {device}": bench.refuses(
            gap, (x,), "NotImplementedError", f"toy::{gap}", device
        ),
        "mul": bench.refuses("mul", (x, x), "NotImplementedError", "toy::mul", device),
        "two devices": bench.refuses("add", (x, elsewhere), device, elsewhere.device),
    }


def _right_toy(
    index: int, sizes: list[int], layout: list[int], a: Numbers, b: Numbers, gap: str
) -> Any:
    (rows, columns), device = sizes, f"lab:{index}"
    count = rows * columns
    room = 1 + (rows - 1) * layout[0] + (columns - 1) * layout[1] if count else 0
    flipped = [a[i * columns + j] for j in range(columns) for i in range(rows)]
    return {
        "x": (device, sizes, layout, room),
        "t(x)": (device, sizes[::-1], layout[::-1]),
        "t shares memory": True,
        "add": (device, sizes[::-1], [rows, 1], count),
        "add has memory of its own": True,
        "inputs as before": True,
        "add(t(x), b)": [left + right for left, right in zip(flipped, b, strict=True)],
        "x, read back": a,
        "kernels run on": ["PrivateUse1"],
        f"{gap} on {device}": "refused",
        "mul": "refused",
        "two devices": "refused",
    }


def _differs(name: str) -> Any:
    def when(evidence: Any) -> bool:
        return bool(evidence.value[name] != evidence.right[name])

    return when


toy_backend = Exercise(
    id="own_operator.toy_backend",
    statement=(
        "Write toy_backend(lib, everything): register, at PrivateUse1, the kernels empty_strided, "
        "copy_, add and t of lib, and a boxed fallback in everything. A fallback raises "
        "NotImplementedError with the operator's name and the device. add of two devices raises "
        "RuntimeError with both names; else its result is new and contiguous."
    ),
    rules=("blocks are read and written through memory.cells, never through another device",),
    case=_a_model,
    expected=_right_toy,
    drive=_drive_toy,
    cases=120,
    minutes=25,
    difficulty=4,
    hints=(
        Hint("Your view no longer shares storage.", when=_differs("t shares memory")),
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


def _a_clip(rng: Rng, size: int) -> tuple[Any, ...]:
    dtype = FLOATS[size % 4]
    sizes = (rng.randint(1, 4), rng.randint(1, 5))
    eighths = torch.randint(-10, 10, sizes, generator=rng.generator()) * 2 + 1
    x = (eighths / 8).to(dtype)  # odd eighths: never on a bound, which is made of quarters
    x = rng.choice((x, x.t(), x.repeat_interleave(2, 1)[:, ::2], x[0, 0]))
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
    statement=(
        "Write clip_operator(lib): define and register lib's operator clip(x, target, bound), "
        "which moves bound, in place, half-way to target, and returns x clipped to "
        "[-bound, bound]. Gradients go to x and, through the moved bound, to target; what bound "
        "held before is a constant. It passes opcheck and compiles. target and bound are 0-dim, of "
        "x's dtype, and may be nearly as large as it allows."
    ),
    case=_a_clip,
    expected=_right_clip,
    drive=_drive_clip,
    cases=8,
    sizes=7,
    seconds=30.0,
    minutes=25,
    difficulty=4,
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

EXERCISES = (toy_backend, custom_operator)
