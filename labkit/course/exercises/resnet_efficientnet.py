"""Blocks by hand: a residual block with its backward, and the small steps around it."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._field_steps import mean_gate, receptive_field, wide_bytes
from labkit.course.exercises._graph_steps import drawn
from labkit.course.exercises._inverted_block import OneThread, mbconv, same

NOTEBOOK = "4_vision_low_level/8_resnet_efficientnet"
aten = torch.ops.aten
F64 = torch.float64

# --- residual_backward


class Part:
    """A convolution with its norm, as in the chapter; it counts its calls."""

    def __init__(self, draw: torch.Generator, shape: tuple[int, ...], stride: int, training: bool):
        self._weight = torch.randn(shape, generator=draw, dtype=F64)
        self._scale, self._shift = torch.randn((2, shape[0]), generator=draw, dtype=F64)
        self._mean = torch.randn(shape[0], generator=draw, dtype=F64)
        self._var = torch.rand(shape[0], generator=draw, dtype=F64) + 0.5
        self._steps, self._training = (stride, stride), training
        self.calls: list[str] = []
        self.gradients: list[torch.Tensor] = []

    def run(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """The result, and what backward needs."""
        self.calls.append("run")
        made = F.conv2d(x, self._weight, None, self._steps, self._weight.shape[2] // 2)
        y, mean, invstd = aten.native_batch_norm(
            made, self._scale, self._shift, self._mean, self._var, self._training, 0.1, 1e-5
        )
        return y, (x, made, mean, invstd)

    def back(self, dy: torch.Tensor, saved: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The gradient of x; those of the weights stay here."""
        self.calls.append("back")
        x, made, mean, invstd = saved
        d_made, *of_norm = aten.native_batch_norm_backward(
            dy, made, self._scale, self._mean, self._var, mean, invstd, self._training, 1e-5,
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
        """The result, for autograd."""
        made = F.conv2d(x, self._weight, None, self._steps, self._weight.shape[2] // 2)
        return F.batch_norm(
            made, self._mean.clone(), self._var.clone(), self._scale, self._shift, self._training
        )


NAMES = ("first", "second", "shortcut")


def _question(
    rng: Rng, size: int, stride: int = 0, training: bool | None = None
) -> tuple[Any, ...]:
    """Seed, channels, stride (0: the input goes around as it is), training, height, width."""
    step = stride if stride >= 0 else rng.choice((0, 1, 2))
    trains = rng.chance(0.5) if training is None else training
    return (rng.getrandbits(40), 1 + size // 2, step, trains, 3 + size, 4 + rng.randint(0, size))


@handed_out
def _parts(
    seed: int, channels: int, stride: int, training: bool, height: int, width: int
) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
    """x, dy and the three parts."""
    draw = torch.Generator().manual_seed(seed)
    out, step = (channels + 1 if stride else channels), max(1, stride)
    x = torch.randn((2, channels, height, width), generator=draw, dtype=F64)
    size = (-(-height // step), -(-width // step))
    dy = torch.randn((2, out, *size), generator=draw, dtype=F64)
    parts: list[Any] = [
        Part(draw, (out, channels, 3, 3), step, training),
        Part(draw, (out, out, 3, 3), 1, training),
        Part(draw, (out, channels, 1, 1), step, training) if stride else None,
    ]
    return x, dy, parts


@handed_out
def _report(
    y: Any, dx: Any, first: Any, second: Any, shortcut: Any, notes: dict[str, Any]
) -> dict[str, Any]:
    return {"y": y, "second": second, "shortcut": shortcut, "first": first, "dx": dx, **notes}


def _block_truth(*question: Any) -> dict[str, Any]:
    x, dy, (first, second, shortcut) = _parts(*question)
    x.requires_grad_()
    weights = [[p._weight, p._scale, p._shift] if p else [] for p in (first, second, shortcut)]
    for weight in [x, *weights[0], *weights[1], *weights[2]]:
        weight.requires_grad_()
    flat = [x, *weights[0], *weights[1], *weights[2]]
    with OneThread():
        branch = second.recorded(first.recorded(x).relu())
        y = (branch + (shortcut.recorded(x) if shortcut else x)).relu()
        dx, *rest = torch.autograd.grad(y, flat, dy)
    calls = {name: ["run", "back"] for name, p in zip(NAMES, weights, strict=True) if p}
    notes = {"calls": calls, "spare bytes": 0, "changed": []}
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
    x, dy, parts = _parts(*question)
    images = {"x": (x, x.clone()), "dy": (dy, dy.clone())}
    with torch.no_grad(), OneThread():
        y, saved = keep_block(x, *parts)
        images["y"] = (y, y.clone())
        held = _held(saved)
        dx = block_back(dy, saved, *parts)
        enough = _enough(x, _parts(*question)[2])
    notes = {
        "calls": {name: p.calls for name, p in zip(NAMES, parts, strict=True) if p},
        "spare bytes": max(0, held - enough),
        "changed": [name for name, (now, was) in images.items() if not torch.equal(now, was)],
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
        if place in reads and (not isinstance(got, dict) or not same(got[key], right[key]))
    ]
    return drawn(reads, wrong)


def _bad(*keys: str) -> Callable[[Any], bool]:
    return lambda e: any(not same(e.value[key], e.right[key]) for key in keys)


def _block_in_words(
    seed: int, channels: int, stride: int, training: bool, height: int, width: int
) -> str:
    around = f"a shortcut of stride {stride}" if stride else "no shortcut"
    return f"x [2, {channels}, {height}, {width}], {around}, training: {training} (seed {seed})"


residual_backward = Exercise(
    id="resnet_efficientnet.residual_backward",
    show=_block_in_words,
    case=lambda rng, size: _question(rng, size, stride=-1),
    expected=_block_truth,
    drive=_drive_block,
    tolerance=1e-6,
    stages=(
        Stage("x around", case=lambda rng, size: _question(rng, size, 0, True), cases=8),
        Stage("shortcut", case=lambda rng, size: _question(rng, size, 2, True), cases=8),
        Stage("evaluation", case=lambda rng, size: _question(rng, size, -1, False), cases=8),
        Stage("together"),
    ),
    cases=20,
    sizes=4,
    minutes=12,
    hints=(
        Hint("You changed a tensor that you were given. Make a new one instead.",
             when=lambda e: bool(e.value["changed"])),
        Hint("Each part's run and back are called once. Use what run gave you.",
             when=lambda e: e.value["calls"] != e.right["calls"]),
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
        "Each part hands back a pair from run. Its second half goes into back.",
    ),
    must_fail=(
        "no skip gradient", "ReLU mask from the wrong tensor", "recomputes everything",
        "mutates the input", "keeps the branch as well", "lets the gradient jump the shortcut",
        "adds x beside the shortcut", "forgets the last ReLU", "no ReLU between the parts",
        "gives the shortcut the gradient of y",
    ),
    picture=_block_picture,
)  # fmt: skip


EXERCISES = (mean_gate, residual_backward, receptive_field, wide_bytes, mbconv)
