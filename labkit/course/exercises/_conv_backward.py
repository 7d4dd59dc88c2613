"""The three gradients of a convolution as CUDA kernels: one owner, one order, any configuration."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from labkit.course.benches import conv_bench, kernel_bench
from labkit.course.benches.conv_bench import off
from labkit.course.benches.kernel_bench import Found
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._conv_cases import a_convolution, plane_drawn, simpler
from labkit.course.exercises._never_right import FIRST
from labkit.cuda.shelf.conv_sizes import Conv
from labkit.cuda.shelf.rung import double


def _a_backward(rng: Rng, size: int) -> tuple[Any, ...]:
    groups = rng.choice((1, 1, 2, 3)) if size > 1 else 1
    return (*_asked(rng, a_convolution(rng, size, groups)), GRADIENTS)


def _asked(rng: Rng, conv: Conv) -> tuple[Any, ...]:
    order = rng.choice(("forward", "reverse", rng.randint(1, 999)))
    return conv, rng.choice((32, 64)), order, rng.getrandbits(30)


def _one(name: str, plain: bool = False, groups: int = 1) -> Any:
    """Cases for one of the three kernels; `plain`: single steps only."""

    def case(rng: Rng, size: int) -> tuple[Any, ...]:
        conv = a_convolution(rng, 1 if plain else max(2, size), groups)
        return (*_asked(rng, conv), (name,))

    return case


GRADIENTS = ("dx", "dw", "db")
BACKWARD = {
    "the launches": "run",
    "dx": "right everywhere",
    "dw": "right everywhere",
    "db": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "atomics": 0,
    "lanes": kernel_bench.ALL_LANES,
}


def _expected_backward(*inputs: Any) -> dict[str, Any]:
    return BACKWARD


@handed_out
def gradients(conv: Conv, x: Any, w: Any, dy: Any) -> list[Any]:
    """PyTorch's gradients for x, w and the bias, in float64."""
    leaves = [double(x), double(w), torch.zeros(conv.w[0], dtype=torch.float64)]
    for leaf in leaves:
        leaf.requires_grad_()
    with torch.enable_grad():
        y = conv.apply(*leaves)
    return [one.numpy() for one in torch.autograd.grad(y, leaves, double(dy))]


KERNELS = {"dx": "backward_input", "dw": "backward_weight", "db": "backward_bias"}


def _drive_backward(
    answer: Any, conv: Conv, block: int, order: Any, seed: int, asked: tuple[str, ...]
) -> Found:
    text = answer()
    if isinstance(text, str) and any(KERNELS[name] not in text for name in asked):
        raise NotImplementedError
    x, w, _ = conv_bench.data(conv, seed)
    dy = np.random.default_rng(seed + 1).standard_normal(conv.y).astype(np.float32)
    read = {"dx": (dy, w), "dw": (x, dy), "db": (dy,)}
    shapes = {"dx": conv.x, "dw": conv.w, "db": conv.w[:1]}
    products = math.prod(conv.y)
    depths = {
        "dx": conv.w[0] * math.prod(conv.w[2:]),
        "dw": products // conv.w[0],
        "db": products // conv.w[0],
    }
    found = Found(BACKWARD)
    for name, right in zip(GRADIENTS, gradients(conv, x, w, dy), strict=True):
        if name not in asked:
            continue
        out = np.full(shapes[name], np.nan, np.float32)
        kernel = KERNELS[name]
        done = conv_bench.run(
            text, kernel, conv, math.ceil(out.size / block), block, (*read[name], out), order
        )
        if done.report is None:
            return Found({"the launches": f"{kernel}: {done.failure}"})
        if wrong := conv_bench.first_wrong(done.arrays[-1], right, depths[name], name):
            found[name] = wrong
            found.seen_in(done.report, done.arrays[-1])
        if done.findings:
            found["findings"] = [f"{kernel}: {one}" for one in done.findings[:2]]
        if done.outside != "untouched":
            found["bytes around the arrays"] = f"{kernel}: {done.outside}"
        found["atomics"] += done.report.total("lanes", access="atomic")
        few = conv_bench.lanes(done, {("write", len(read[name])): 1})
        if few != kernel_bench.ALL_LANES:
            found["lanes"] = f"{kernel}: {few}"
        if found != BACKWARD and found.report is None:
            found.seen_in(done.report, out)
    return found


def _smaller_backward(conv: Conv, *rest: Any) -> Iterator[tuple[Any, ...]]:
    for less in simpler(conv):
        yield less, *rest


def _show_backward(conv: Conv, block: int, order: Any, seed: int, asked: tuple[str, ...]) -> str:
    kernels = ", ".join(KERNELS[name] for name in asked)
    return f"{kernels}: {conv_bench.in_words(conv, order)}; blocks of {block}"


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The gradient that is not right, element by element."""
    conv, _, _, seed, _ = case.inputs
    x, w, _ = conv_bench.data(conv, seed)
    dy = np.random.default_rng(seed + 1).standard_normal(conv.y).astype(np.float32)
    for name, wanted in zip(GRADIENTS, gradients(conv, x, w, dy), strict=True):
        if got.get(name) != BACKWARD[name]:
            return plane_drawn(name, case, got, wanted)
    return kernel_bench.drawn(case, got, right)


conv_backward = Exercise(
    id="train_your_kernel.conv_backward",
    rules=(
        "every sum has one owner and one order: no atomics",
        "nothing outside the arrays is read or written",
    ),
    case=_a_backward,
    expected=_expected_backward,
    drive=_drive_backward,
    smaller=_smaller_backward,
    show=_show_backward,
    picture=_drawn,
    returns=(Found,),
    rung="boss",
    stages=(
        Stage("bias", case=_one("db"), cases=4),
        Stage("weight", case=_one("dw"), cases=8),
        Stage("input, single steps", case=_one("dx", plain=True), cases=4),
        Stage("input", case=_one("dx"), cases=8),
        Stage("groups", case=_one("dx", groups=2), cases=4),
        Stage("together"),
    ),
    cases=50,
    seconds=60.0,
    processes=True,
    minutes=30,
    hints=(
        Hint(
            "An element stays as it was when no output touched it: its gradient is 0, and somebody "
            "has to write that.",
            when=lambda e: any(off(name, " nan, not 0")(e) for name in GRADIENTS),
        ),
        Hint(
            "Stride 1 is right, this one not. Which outputs touched this input? Divide the "
            "distance by the stride, and skip what leaves a remainder.",
            when=lambda e: off("dx")(e) and e.inputs[0].stride != (1, 1),
        ),
        Hint(
            "It is right when groups is 1. Which outputs read this channel, and which channel of "
            "w is it to them?",
            when=lambda e: (off("dx")(e) or off("dw")(e)) and e.inputs[0].groups > 1,
        ),
        Hint(
            "A bias meets every position of every image of its own output channel.",
            when=off("db"),
        ),
        Hint(
            "No atomics: let the thread that owns the result collect what belongs to it.",
            when=off("atomics"),
        ),
        Hint(
            "The trace saw an access outside its array. Which two sizes are taken for one another "
            "there?",
            when=off("findings", "out of bounds"),
        ),
        "Write the forward pass as y += x * w over all (n, k, c, p, q, r, s): each gradient keeps "
        "the same products, and sums over other indices.",
        "dx[h] collects from all r with (h + pad - r * dilation) = p * stride, 0 <= p < P. A "
        "negative distance has a remainder of its own: test the sign first.",
        "dw[k, c, r, s] = sum over n, p, q of dy[n, k, p, q] * x[n, c, p * stride - pad + r * "
        "dilation, ...]: the reads of the forward pass.",
    ),
    must_fail=(
        "stride above 1 wrong",
        "weight flipped twice",
        "atomics with random order beyond tolerance",
        "groups mixed",
        "bias gradient over the wrong axes",
        "returns NaN or an uninitialised buffer where a value is expected",
        FIRST,
        "is right only for square, even or contiguous shapes",
    ),
)
