"""A dispatcher call: its hops without running it, a device and an operator of one's own."""

import itertools
from typing import Any

import torch

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet, keyset
from labkit.course.exercise import Case, Exercise, Hint, Rng
from labkit.dispatch import tls
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.library import Library
from labkit.dispatch.recording import recording
from labkit.dispatch.schema_parser import parse_schema

NOTEBOOK = "3_internals/3_dispatch_call"
K = DispatchKey

FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"


# --- predict_the_hops

SCHEMAS = (
    "(Tensor x) -> Tensor",
    "(Tensor x, Tensor y) -> Tensor",
    "(Tensor x, Tensor? y, int n) -> Tensor",
    "(Tensor[] xs, Tensor? y) -> Tensor",
    "(Tensor?[] xs, int n) -> Tensor",
)
LAYERS = (
    K.ADInplaceOrView, K.AutogradCPU, K.AutogradCUDA, K.AutogradOther, K.AutocastCPU,
    K.BackendSelect, K.Functionalize, K.FuncTorchBatched, K.Python, K.Negative, K.Conjugate,
)  # fmt: skip
BOTTOMS = (K.CPU, K.CUDA, K.Meta, K.SparseCPU, K.QuantizedCPU)

Call = tuple[list[Any], int, int]
Plan = tuple[str, dict[str, str | int]]


def _a_plan(rng: Rng, size: int) -> Plan:
    """A schema, and what stands at each slot: "on" redispatches, "end" computes, "skip"."""
    table: dict[str, str | int] = {}
    for key in LAYERS:
        kind = rng.choice(("on", "on", "skip", "set"))
        # a set of the kernel's own: the only way a redispatch meets what the first mask took out
        below = DispatchKeySet(*rng.sample(LAYERS, 4), rng.choice(BOTTOMS))
        own = below & DispatchKeySet.full_after(key.functionality)
        if rng.chance(0.8):
            table[str(key)] = own.raw if kind == "set" else kind
    table |= {str(key): rng.choice(("end", "end", "on")) for key in BOTTOMS if rng.chance(0.85)}
    return rng.choice(SCHEMAS), table


def _a_word(rng: Rng) -> int:
    backend = rng.choice((K.CPU, K.CPU, K.CPU, K.CUDA, K.Meta, K.SparseCPU, K.QuantizedCPU))
    extra = [key for key in LAYERS if rng.chance(0.25)]
    return DispatchKeySet(backend, *extra).raw


def _a_call(rng: Rng, schema: str) -> Call:
    made: list[Any] = []
    for argument in parse_schema(f"exercise::op{schema}").arguments:
        kind = str(argument.type)
        if kind == "Tensor" or (kind == "Tensor?" and rng.chance(0.6)):
            made.append(_a_word(rng))
        elif kind == "Tensor[]":
            made.append([_a_word(rng) for _ in range(rng.randint(0, 3))])
        elif kind == "Tensor?[]":
            made.append([_a_word(rng) if rng.chance(0.7) else None for _ in range(3)])
        else:
            made.append("3" if kind == "int" else None)
    included = tls.DEFAULT_INCLUDED | DispatchKeySet(*[k for k in LAYERS if rng.chance(0.15)])
    excluded = DispatchKeySet(*[k for k in LAYERS if rng.chance(0.2)])
    return made, included.raw, excluded.raw


class _Stand:
    """A tensor of which only the key set matters."""

    def __init__(self, word: int) -> None:
        self._key_set = keyset(word)


def _as_argument(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_argument(item) for item in value]
    return _Stand(value) if isinstance(value, int) else 3 if value == "3" else value


class _Recorded:
    """An operator of labkit whose kernels note their slot and pass the call on."""

    def __init__(self, plan: Plan) -> None:
        schema, table = plan
        dispatcher = Dispatcher(bare=True)
        dispatcher.register_def(parse_schema(f"exercise::op{schema}"), "")
        self.op = dispatcher.find("exercise::op")
        self.hops: list[str] = []
        for name, kind in table.items():
            form = "fallthrough" if kind == "skip" else "unboxed"
            function = None if kind == "skip" else self._kernel(name, kind)
            kernel = Kernel(function, name, form, with_keyset=kind != "skip")  # type: ignore[arg-type]
            self.op.register(K.parse(name), kernel)

    def _kernel(self, name: str, kind: str | int) -> Any:
        def kernel(keys: DispatchKeySet, *arguments: Any) -> Any:
            self.hops.append(name)
            if kind == "end":
                return None
            below = keys & DispatchKeySet.full_after(keys.highest_functionality())
            return self.op.redispatch(keyset(kind) if isinstance(kind, int) else below, *arguments)

        return kernel

    def call(self, call: Call) -> list[str]:
        """The slots entered, and "error" where the last redispatch found nothing to run."""
        arguments, included, excluded = call
        self.hops = []
        try:
            with tls.ForceDispatchKeyGuard(keyset(included), keyset(excluded)):
                self.op(*map(_as_argument, arguments))
        except (NotImplementedError, RuntimeError):
            return [*self.hops, "error"]
        return self.hops


def _some_calls(rng: Rng, size: int) -> Case:
    plan = _a_plan(rng, size)
    calls = [_a_call(rng, plan[0]) for _ in range(10)]
    recorded = _Recorded(plan)
    masks = list(recorded.op.masks)
    return Case((calls, masks, plan[1]), truth=[recorded.call(call) for call in calls])


def _drive_hops(
    answer: Any, calls: list[Call], masks: list[int], table: dict[str, str | int]
) -> Any:
    return [answer(*call, masks, table) for call in calls]


predict_the_hops = Exercise(
    id="dispatch_call.predict_the_hops",
    statement=(
        "Write predict_the_hops(arguments, included, excluded, masks, table). An argument is a "
        "tensor's word, a list of words and None, None, or text for what is no tensor. masks holds "
        "one word per backend bit: what does not fall through there. table is {slot: 'on', 'end', "
        "'skip' or a word}: a kernel that redispatches below its key, one that computes, a "
        "fallthrough, one that redispatches with exactly this word. "
        "Return the slots entered, in order, and 'error' last where nothing can run."
    ),
    rules=("labkit.core is allowed, labkit.dispatch is not; nothing is run",),
    case=_some_calls,
    drive=_drive_hops,
    cases=200,
    minutes=20,
    difficulty=4,
    banned=("torch.*", "labkit.dispatch.*", "labkit.conformance.*"),
    hints=(
        Hint(
            "Which set does the redispatch get? What its caller kept of its own, without the mask: "
            "a key that fell through is gone, since the first set was masked; one that was never "
            "masked may still meet a fallthrough, and that is an error.",
            when=lambda evidence: evidence.property.startswith("["),
        ),
        "Hop one: OR all tensors, lists and optionals too; OR the included set; then take out the "
        "functionalities of the excluded one.",
        "The mask is that of the highest backend bit, and acts once.",
        "Below the current key: full_after(its functionality), without the mask.",
    ),
    must_fail=(
        "mask applied at every hop",
        "only the first argument",
        "excluded before included",
        "stops at Autograd",
        "lists ignored",
        FIRST,
        CONSTANT,
        BANNED,
    ),
)


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
    id="dispatch_call.toy_backend",
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
    id="dispatch_call.custom_operator",
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

EXERCISES = (predict_the_hops, toy_backend, custom_operator)
