"""Training on a kernel of one's own: who saw an input, and both gradients in one dimension."""

from typing import Any

import numpy as np

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._conv_backward import conv_backward
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "4_vision_low_level/5b_train_your_kernel"


def _steps(rng: Rng, size: int) -> dict[str, int]:
    """One dimension of a convolution: taps, stride, pad, dilation and the two lengths."""
    taps, stride, dilation = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 2)
    pad, reach = rng.randint(0, 2), dilation * (taps - 1) + 1
    length = max(1, reach - 2 * pad) + rng.randint(0, 3 + size)
    outputs = (length + 2 * pad - reach) // stride + 1
    return {
        "taps": taps, "stride": stride, "pad": pad, "dilation": dilation,
        "length": length, "outputs": outputs,
    }  # fmt: skip


# --- who_saw


def _an_input(rng: Rng, size: int) -> tuple[Any, ...]:
    one = _steps(rng, size)
    h = rng.randrange(one["length"])
    return h, one["taps"], one["outputs"], one["stride"], one["pad"]


def _saw(h: int, taps: int, outputs: int, stride: int, pad: int) -> list[tuple[int, int]]:
    pairs = [(p, r) for p in range(outputs) for r in range(taps)]
    return [(p, r) for p, r in pairs if p * stride - pad + r == h]


def _pairs(value: Any) -> set[Any]:
    return set(map(tuple, value)) if isinstance(value, list) else set()


def _extra(evidence: Evidence) -> bool:
    return bool(_pairs(evidence.value) - _pairs(evidence.right))


def _some_missing(evidence: Evidence) -> bool:
    return bool(_pairs(evidence.right) - _pairs(evidence.value))


who_saw = Exercise(
    id="train_your_kernel.who_saw",
    rung="warm-up",
    case=_an_input,
    expected=_saw,
    show=lambda h, taps, outputs, stride, pad: (
        f"h = {h}; {taps} taps, {outputs} outputs, stride {stride}, pad {pad}"
    ),
    cases=120,
    minutes=3,
    hints=(
        Hint("A sorted list is wanted.", when=lambda e: not isinstance(e.value, list)),
        Hint(
            "The pairs are right, but the list is not sorted, or a pair stands in it twice.",
            when=lambda e: e.value != e.right and _pairs(e.value) == _pairs(e.right) != set(),
        ),
        Hint(
            "Your pairs are turned: the output p comes first, then the tap r.",
            when=lambda e: e.value != e.right and sorted((p, r) for r, p in e.value) == e.right,
        ),
        Hint(
            "One of your pairs is no pair of the forward pass: p * stride - pad + r is not h, or "
            "that output does not exist.",
            when=_extra,
        ),
        Hint("An output that read x[h] is missing.", when=_some_missing),
        "The forward pass reads x[p * stride - pad + r] for output p and tap r.",
        "Try every p and every r, and keep the pairs for which that is h.",
    ),
    must_fail=(
        "ignores the padding",
        "ignores the stride",
        "divides and keeps the remainder's outputs",
        "names outputs that do not exist",
        "names the tap first",
        FIRST,
    ),
)

# --- line_backward


def _a_line(rng: Rng, size: int, **fixed: int) -> tuple[Any, ...]:
    one = _steps(rng, size) | fixed
    reach = one["dilation"] * (one["taps"] - 1) + 1
    length = max(one["length"], reach)
    outputs = (length + 2 * one["pad"] - reach) // one["stride"] + 1
    of = rng.choice((1, 2))  # whole numbers, or halves: a device hands over floats

    def numbers(count: int) -> list[float]:
        return [_plain(rng.randint(-9, 9) / of) for _ in range(count)]

    steps = one["stride"], one["pad"], one["dilation"]
    return numbers(length), numbers(one["taps"]), numbers(outputs), *steps


@handed_out
def _plain(number: float) -> float:
    """A whole number as an int: 2.0 and 2 are one answer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _line(**fixed: int) -> Any:
    return lambda rng, size: _a_line(rng, size, **fixed)


def _gradients(
    x: list[float], w: list[float], dy: list[float], stride: int, pad: int, dilation: int
) -> tuple[list[float], list[float]]:
    dx, dw = [0.0] * len(x), [0.0] * len(w)
    for p, given in enumerate(dy):
        for r, weight in enumerate(w):
            h = p * stride - pad + r * dilation
            if 0 <= h < len(x):
                dx[h] += given * weight
                dw[r] += given * x[h]
    return [*map(_plain, dx)], [*map(_plain, dw)]


def _drive_line(answer: Any, *inputs: Any) -> Any:
    found = answer(*inputs)
    if not isinstance(found, tuple | list) or not all(
        isinstance(one, tuple | list) for one in found
    ):
        return found
    return tuple([*map(_plain, one)] for one in found)


def _unpadded(x: Any, w: Any, dy: Any, stride: int, pad: int, dilation: int) -> Any:
    return _gradients(x, w, dy, stride, 0, dilation)


def _line_words(*inputs: Any) -> str:
    x, w, dy, stride, pad, dilation = inputs
    steps = f"stride {stride}, pad {pad}, dilation {dilation}"
    return f"x = {x}, w = {w}, dy = {dy}; {steps}"


def _lines_drawn(case: Case, got: Any, right: Any) -> Any:
    """Both gradients beside what is right; a wrong element is marked."""
    from labkit.widgets.cuda.tile_view import TileView

    grids = []
    for name, yours, wanted in zip(("dx", "dw"), got, _gradients(*case.inputs), strict=True):
        if len(yours) != len(wanted):
            return None
        status = np.where(np.array(yours) == np.array(wanted), "right", "wrong")
        values = np.array([yours, wanted])
        both = np.array([status, np.full(len(wanted), "right")])
        grids.append({"name": f"{name}: yours, and right", "values": values, "status": both})
    return TileView(grids)


def _all_whole(gradients: Any) -> bool:
    return all(isinstance(number, int) for gradient in gradients for number in gradient)


def _of(at: int) -> Any:
    def wrong(evidence: Evidence) -> bool:
        value = evidence.value
        return isinstance(value, tuple) and len(value) == 2 and value[at] != evidence.right[at]

    return wrong


line_backward = Exercise(
    id="train_your_kernel.line_backward",
    case=_a_line,
    expected=_gradients,
    drive=_drive_line,
    show=_line_words,
    picture=_lines_drawn,
    stages=(
        Stage("plain", case=_line(stride=1, pad=0, dilation=1), cases=10),
        Stage("padding", case=_line(stride=1, dilation=1), cases=10),
        Stage("stride", case=_line(pad=0, dilation=1), cases=10),
        Stage("dilation", case=_line(stride=1, pad=0), cases=10),
        Stage("together"),
    ),
    cases=60,
    minutes=11,
    banned=("torch.*", "labkit.*", "numpy.*"),
    hints=(
        Hint(
            "Halves are lost: x, w and dy may be any numbers, so no int() and no //.",
            when=lambda e: _all_whole(e.value) and not _all_whole(e.right),
        ),
        Hint("You returned (dw, dx): dx comes first.", when=lambda e: e.value == e.right[::-1]),
        Hint(
            "With padding, output 0 begins at -pad: the pad is missing in your h.",
            when=lambda e: e.value == _unpadded(*e.inputs),
            stage="padding",
        ),
        Hint(
            "A tap in the padding read no x. A negative index is no error in Python: it means the "
            "end of the list.",
            stage="padding",
        ),
        Hint("Output p reads from p * stride - pad on.", stage="stride"),
        Hint("Tap r lies r * dilation further.", stage="dilation"),
        Hint(
            "dx has one number for each x: those that no output has read are 0.",
            when=lambda e: _of(0)(e) and len(e.value[0]) != len(e.right[0]),
        ),
        Hint(
            "dx[h] collects dy[p] * w[r] from each pair that read x[h]: the same r as forward.",
            when=_of(0),
        ),
        Hint("dw has one number for each tap; it sums over all outputs.", when=_of(1)),
        "The forward pass is one loop: y[p] += w[r] * x[h]. Walk the same loop. What does each "
        "product give to dx[h], and what to dw[r]?",
    ),
    must_fail=(
        "turns the kernel once too often",
        "reads the end of the list in the padding",
        "forgets the stride",
        "forgets the dilation",
        "keeps the last product only",
        "makes whole numbers of the products",
        FIRST,
    ),
)

EXERCISES = (who_saw, line_backward, conv_backward)
