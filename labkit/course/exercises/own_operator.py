"""A device and an operator of one's own: kernels registered where the dispatcher looks."""

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.exercise import Case, Exercise, Hint, Rng, handed_out
from labkit.course.exercises._never_right import CONSTANT
from labkit.course.exercises._toy_backend import Block, Memory, drawn, toy_backend

NOTEBOOK = "3_internals/3c_own_operator"


# --- custom_operator

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@functools.cache
def compiler_is_ready() -> None:
    """What PyTorch loads and starts at its first compilation is not the answer's doing."""
    torch.compile(lambda x: x * 2, backend="aot_eager")(torch.ones(2))
    torch.library.opcheck(torch.ops.aten.sin.default, (torch.ones(2, requires_grad=True),))


def _a_clip(rng: Rng, size: int) -> tuple[Any, ...]:
    compiler_is_ready()
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


@handed_out
def opcheck(op: Any, arguments: tuple[Any, ...]) -> dict[str, str]:
    """PyTorch's own checks; the last of them traces forward and backward functionalised."""
    found = torch.library.opcheck(op, arguments, raise_exception=False)
    return {name: "SUCCESS" if said == "SUCCESS" else "failed" for name, said in found.items()}


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
        checked = opcheck(op, (mine[0], mine[1], bound.clone()))
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
        Hint(
            "The sum of two large numbers is inf in this dtype: add halves.",
            when=lambda e: "inf" in e.got,
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


COPIES = (
    "empty",
    "new_",
    "zeros",
    "ones",
    "full",
    "rand",
    "fill_",
    "zero_",
    "detach",
    "clone",
    "copy",
)
VIEWS = ("view", "expand", "unsqueeze", "squeeze", "t", "transpose", "permute", "select", "slice",
         "as_strided", "alias", "reshape", "_unsafe_view", "_reshape_alias")  # fmt: skip
"""Operators that make room or look at it: no number is computed."""


class _Computing(TorchDispatchMode):  # type: ignore[misc]
    """Notes the operators that compute a number."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name not in VIEWS and not name.lstrip("_").startswith((*COPIES, "to_copy")):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@handed_out
def _described(x: Any, made: Any) -> Any:
    """What a fake kernel promises; anything but a tensor as its class."""
    if not isinstance(made, torch.Tensor):
        return type(made).__name__
    own = made.untyped_storage()._cdata != x.untyped_storage()._cdata
    return {
        "shape": tuple(made.shape),
        "dtype": made.dtype,
        "device": made.device.type,
        "strides": made.stride(),
        "memory of its own": own,
    }


def _drive_fake(answer: Any, length: int, dtype: torch.dtype, device: str) -> Any:
    x = torch.ones(length, dtype=dtype, device=device)
    with _Computing() as computing:
        made = answer(x)
    found = _described(x, made)
    return found | {"computed with": computing.names} if isinstance(found, dict) else found


def _fake(length: int, dtype: torch.dtype, device: str) -> Any:
    like = torch.empty(length, length, dtype=dtype, device=device)
    x = torch.empty(length, dtype=dtype, device=device)
    return _described(x, like) | {"computed with": []}


fake_pairs = Exercise(
    id="own_operator.fake_pairs",
    case=_a_fake,
    expected=_fake,
    drive=_drive_fake,
    show=lambda length, dtype, device: f"x of {length} numbers, {dtype}, on {device}",
    rung="warm-up",
    rules=("no number is computed",),
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "A fake makes room for the result, and computes nothing.",
            when=lambda evidence: evidence.value["computed with"],
        ),
        Hint(
            "A difference is a new tensor: strides (n, 1), in memory of its own.",
            when=lambda evidence: (
                evidence.value["shape"] == evidence.right["shape"]
                and (
                    evidence.value["strides"] != evidence.right["strides"]
                    or not evidence.value["memory of its own"]
                )
            ),
        ),
        Hint(
            "The dtype or the device is another one. x.new_empty(sizes) takes both from x.",
            when=lambda evidence: any(
                evidence.value[key] != evidence.right[key] for key in ("dtype", "device")
            ),
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
        "computes something else",
        "hands out a view of x",
        "has other strides",
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


def _views_drawn(case: Case, got: Any, right: Any) -> Any:
    """The elements of the block, and of both views of it: the one asked for, and yours."""
    (block,) = case.inputs
    if not isinstance(got, dict) or len(got["sizes"]) != 2:
        return None
    asked, yours = (
        Block(block.memory, one["sizes"], one["strides"], one["offset"]) for one in (right, got)
    )
    return drawn({"the block": block, "right": asked, "yours": yours})


transposed = Exercise(
    id="own_operator.transposed",
    case=_a_block,
    expected=_transposed,
    drive=_drive_view,
    picture=_views_drawn,
    rung="warm-up",
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "The block itself was turned. Make another one: Block(memory, sizes, strides, offset).",
            when=lambda evidence: (
                evidence.value["the block as before"] != evidence.right["the block as before"]
            ),
        ),
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
