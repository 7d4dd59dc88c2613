"""A residual block with its backward, and the small steps before it."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional as F

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._gate_steps import mean_gate, moved
from labkit.course.exercises._graph_steps import drawn
from labkit.course.exercises._inverted_block import OneThread, same

NOTEBOOK = "4_vision_low_level/8_residual_block"
aten = torch.ops.aten
F64 = torch.float64

# --- residual_backward


class Part:
    """A convolution with its norm, as in the chapter; it counts its calls."""

    def __init__(self, draw: torch.Generator, shape: tuple[int, ...], stride: int):
        self._weight = torch.randn(shape, generator=draw, dtype=F64)
        self._scale, self._shift = torch.randn((2, shape[0]), generator=draw, dtype=F64)
        self.bn = SimpleNamespace(
            running_mean=torch.randn(shape[0], generator=draw, dtype=F64),
            running_var=torch.rand(shape[0], generator=draw, dtype=F64) + 0.5,
        )
        self._steps, self.training = (stride, stride), True
        self.calls: list[str] = []
        self.gradients: list[torch.Tensor] = []

    def run(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """The result, and what backward needs; the running statistics stay."""
        self.calls.append("run")
        made = F.conv2d(x, self._weight, None, self._steps, self._weight.shape[2] // 2)
        mean, var = self.bn.running_mean.clone(), self.bn.running_var.clone()
        if self.training:
            var, mean = torch.var_mean(made, (0, 2, 3), correction=0)
        invstd = (var + 1e-5).rsqrt()
        scale = self._scale * invstd
        y = made * scale[:, None, None] + (self._shift - mean * scale)[:, None, None]
        return y, (x, made, mean, invstd)

    def back(
        self, dy: torch.Tensor, saved: tuple[torch.Tensor, ...], constants: bool = False
    ) -> torch.Tensor:
        """The gradient of x; those of the weights stay here.

        constants  whether mean and variance are constants: otherwise they depend on x
        """
        self.calls.append("back")
        x, made, mean, invstd = saved
        d_made, *of_norm = aten.native_batch_norm_backward(
            dy, made, self._scale, mean, invstd**-2 - 1e-5, mean, invstd, not constants, 1e-5,
            [True, True, True],
        )  # fmt: skip
        pad = [self._weight.shape[2] // 2] * 2
        dx, d_weight, _ = aten.convolution_backward(
            d_made, x, self._weight, None, self._steps, pad, [1, 1], False, [0, 0], 1,
            [True, True, False],
        )  # fmt: skip
        self.gradients = [d_weight, *of_norm]
        return dx

    def recorded(self, x: torch.Tensor) -> torch.Tensor:
        """The result, for autograd; in training PyTorch moves the running statistics."""
        made = F.conv2d(x, self._weight, None, self._steps, self._weight.shape[2] // 2)
        kept = self.bn.running_mean, self.bn.running_var
        return F.batch_norm(made, *kept, self._scale, self._shift, self.training)


NAMES = ("first", "second", "shortcut")


def _question(
    rng: Rng, size: int, stride: int = -1, training: bool | None = None, before: int = 0
) -> tuple[Any, ...]:
    """Seed, channels, stride (0: the input goes around as it is), training, height, width, before.

    before  the steps of training that come first
    """
    step = stride if stride >= 0 else rng.choice((0, 1, 2))
    trains = rng.chance(0.5) if training is None else training
    height, width = 3 + size, 4 + rng.randint(0, size)
    return (rng.getrandbits(40), 1 + size // 2, step, trains, height, width, before)


@handed_out
def _parts(
    seed: int, channels: int, stride: int, training: bool, height: int, width: int, before: int
) -> tuple[list[torch.Tensor], torch.Tensor, list[Any]]:
    """The images of all steps, dy and the three parts."""
    draw = torch.Generator().manual_seed(seed)
    out, step = (channels + 1 if stride else channels), max(1, stride)
    shape = (2, channels, height, width)
    images = [torch.randn(shape, generator=draw, dtype=F64) for _ in range(before + 1)]
    size = (-(-height // step), -(-width // step))
    dy = torch.randn((2, out, *size), generator=draw, dtype=F64)
    parts: list[Any] = [
        Part(draw, (out, channels, 3, 3), step),
        Part(draw, (out, out, 3, 3), 1),
        Part(draw, (out, channels, 1, 1), step) if stride else None,
    ]
    return images, dy, parts


@handed_out
def _mode(parts: list[Any], training: bool) -> None:
    for part in filter(None, parts):
        part.training = training


@handed_out
def _running(parts: list[Any], training: bool, before: int) -> dict[str, list[torch.Tensor]]:
    """Mean and variance by part; nothing where training takes one step alone."""
    if training and not before:
        return {}
    named = zip(NAMES, parts, strict=True)
    return {name: [p.bn.running_mean, p.bn.running_var] for name, p in named if p}


@handed_out
def _report(
    y: Any, dx: Any, first: Any, second: Any, shortcut: Any, notes: dict[str, Any]
) -> dict[str, Any]:
    return {"y": y, "second": second, "shortcut": shortcut, "first": first, "dx": dx, **notes}


def _block_truth(*question: Any) -> dict[str, Any]:
    images, dy, parts = _parts(*question)
    *_, training, _, _, before = question
    first, second, shortcut = parts
    weights = [[p._weight, p._scale, p._shift] if p else [] for p in parts]
    flat = [*weights[0], *weights[1], *weights[2]]
    for weight in flat:
        weight.requires_grad_()
    with OneThread():
        for number, x in enumerate(images):
            _mode(parts, training or number < before)
            x.requires_grad_()
            branch = second.recorded(first.recorded(x).relu())
            y = (branch + (shortcut.recorded(x) if shortcut else x)).relu()
        dx, *rest = torch.autograd.grad(y, [x, *flat], dy)
    notes = {
        "calls": {
            n: ["run", "back"] * (before + 1) for n, p in zip(NAMES, parts, strict=True) if p
        },
        "spare bytes": 0,
        "changed": [],
        "running": _running(parts, training, before),
    }
    return _report(y.detach(), dx, rest[:3], rest[3:6], rest[6:], notes)


@handed_out
def _tensors(saved: Any) -> Iterator[torch.Tensor]:
    if isinstance(saved, torch.Tensor):
        yield saved
    elif isinstance(saved, (tuple, list)):
        for one in saved:
            yield from _tensors(one)
    elif isinstance(saved, dict):
        yield from _tensors(list(saved.values()))
    elif saved is not None and not isinstance(saved, (int, float, str)):
        raise TypeError(f"saved holds {type(saved).__name__}: tensors, tuples, lists and dicts may")


@handed_out
def _held(saved: Any) -> int:
    """Bytes, each memory once."""
    return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in _tensors(saved)}.values())


def _drive_block(answer: Any, *question: Any) -> Any:
    keep_block, block_back = answer
    images, dy, parts = _parts(*question)
    *_, training, _, _, before = question
    given = {"dy": (dy, dy.clone())}
    with torch.no_grad(), OneThread():
        for number, x in enumerate(images):
            _mode(parts, training or number < before)
            given["x"] = (x, x.clone())
            y, saved = keep_block(x, *parts)
            given["y"] = (y, y.clone())
            held = _held(saved)
            dx = block_back(dy, saved, *parts)
        enough = _enough(x, _parts(*question)[2])
    notes = {
        "calls": {name: p.calls for name, p in zip(NAMES, parts, strict=True) if p},
        "spare bytes": max(0, held - enough),
        "changed": [name for name, (now, was) in given.items() if not torch.equal(now, was)],
        "running": _running(parts, training, before),
    }
    first, second, shortcut = (p.gradients if p else [] for p in parts)
    return _report(y, dx, first, second, shortcut, notes)


@handed_out
def _enough(x: torch.Tensor, parts: list[Any]) -> int:
    """Bytes of what the parts keep, of the image between them, and of the result."""
    first, second, shortcut = parts
    norm, saved = first.run(x)
    hidden = norm.relu()
    branch, more = second.run(hidden)
    return _held([saved, hidden, more, branch.relu(), shortcut.run(x)[1] if shortcut else None])


def _block_picture(case: Any, got: Any, right: Any) -> Any:
    """The block, the places marked whose values or gradients are wrong."""
    around = "shortcut" if case.inputs[2] else "x"
    reads = {"x": [], "first": ["x"], "relu": ["first"], "second": ["relu"]}
    reads |= {"shortcut": ["x"]} if around == "shortcut" else {}
    reads |= {"sum": ["second", around], "y": ["sum"]}
    places = {"dx": "x", "y": "y", "first": "first", "second": "second", "shortcut": "shortcut"}
    wrong = [
        place
        for key, place in places.items()
        if place in reads
        and (
            not isinstance(got, dict)
            or not same(got[key], right[key])
            or not same(got["running"].get(place, []), right["running"].get(place, []))
        )
    ]
    return drawn(reads, wrong)


def _bad(*keys: str) -> Callable[[Any], bool]:
    return lambda e: any(not same(e.value[key], e.right[key]) for key in keys)


def _running_is(*which: int) -> Callable[[Any], bool]:
    """Whether these running statistics (0: mean, 1: variance), and no others, are wrong."""

    def fits(e: Any) -> bool:
        pairs = [(e.value["running"][name], right) for name, right in e.right["running"].items()]
        return {n for got, right in pairs for n in (0, 1) if not same(got[n], right[n])} == {*which}

    return fits


def _told_wrongly(e: Any) -> bool:
    """Whether a part's weights are wrong although its scale and shift are right."""
    return any(
        same(e.value[name][1:], e.right[name][1:]) and not same(e.value[name], e.right[name])
        for name in NAMES
    )


def _shortcut_left_out(e: Any) -> bool:
    """Whether two gradients of different shapes met, in a block with a shortcut."""
    return bool(e.kind == "raised" and e.inputs[2] and "must match the size" in e.got)


def _block_in_words(
    seed: int, channels: int, stride: int, training: bool, height: int, width: int, before: int
) -> str:
    around = f"a shortcut of stride {stride}" if stride else "no shortcut"
    steps = f"after {before} steps of training, " if before else ""
    return (
        f"{steps}x [2, {channels}, {height}, {width}], {around}, training: {training} (seed {seed})"
    )


residual_backward = Exercise(
    id="residual_block.residual_backward",
    show=_block_in_words,
    case=lambda rng, size: _question(rng, size, before=10),
    expected=_block_truth,
    drive=_drive_block,
    tolerance=1e-6,
    stages=(
        Stage("x around", case=lambda rng, size: _question(rng, size, 0, True), cases=8),
        Stage("shortcut", case=lambda rng, size: _question(rng, size, 2, True), cases=8),
        Stage("evaluation", case=lambda rng, size: _question(rng, size, -1, False), cases=8),
        Stage("ten steps"),
    ),
    cases=20,
    sizes=4,
    minutes=15,
    hints=(
        Hint("You changed a tensor that you were given. Make a new one instead.",
             when=lambda e: bool(e.value["changed"])),
        Hint("Each part's run and back are called once. Use what run gave you.",
             when=lambda e: e.value["calls"] != e.right["calls"]),
        Hint("The running statistics changed in evaluation. Only training moves them.",
             when=lambda e: not e.inputs[6] and (_running_is(0, 1)(e) or _running_is(1)(e))),
        Hint("Each running_mean is right, a running_var is not. It follows the unbiased variance: "
             "the sum of squares is divided by n - 1, not by n.", when=_running_is(1)),
        Hint("The running statistics are not right. A forward in training moves them once, to 0.9 "
             "of what they were and 0.1 of the batch's. block_back leaves them alone.",
             when=_running_is(0, 1)),
        Hint("In evaluation mean and variance are constants, and a part's back has to be told.",
             when=lambda e: not e.inputs[3] and _told_wrongly(e)),
        Hint("In training mean and variance depend on the batch: back must not be told that they "
             "are constants.", when=lambda e: e.inputs[3] and _told_wrongly(e)),
        Hint("y is not right. The sum is branch + shortcut(x), and ReLU comes last.",
             when=_bad("y")),
        Hint("What goes into second.back is not right: the gradient of the sum is dy where y is "
             "above 0.", when=_bad("second")),
        Hint("What goes into shortcut.back is not right: it is the gradient of the sum.",
             when=_bad("shortcut")),
        Hint("What goes into first.back is not right. It passes a ReLU on its way, whose result "
             "you called hidden.", when=_bad("first")),
        Hint("dx is not the sum of what comes through the branch and what comes around.",
             when=_bad("dx")),
        Hint("All is right, but saved holds an image that backward can do without.",
             when=lambda e: e.value["spare bytes"] > 0),
        Hint("What goes around has not the shape of x when it comes back: it passes "
             "shortcut.back, as it passed shortcut.run.", when=_shortcut_left_out),
        "Each part hands back a pair from run. Its second half goes into back.",
    ),
    must_fail=(
        "no skip gradient", "ReLU mask from the wrong tensor", "recomputes everything",
        "mutates the input", "keeps the branch as well", "lets the gradient jump the shortcut",
        "adds x beside the shortcut", "forgets the last ReLU", "no ReLU between the parts",
        "leaves shortcut.back out",
        "gives the shortcut the gradient of y", "statistics from biased variance",
        "never moves the statistics", "moves the statistics in evaluation",
        "moves the statistics again in backward", "swaps the shares of old and new",
        "takes the batch's formula in evaluation",
        "takes mean and variance for constants in training", "takes every image for a square",
    ),
    picture=_block_picture,
)  # fmt: skip


EXERCISES = (mean_gate, moved, residual_backward)
