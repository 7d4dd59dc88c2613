"""Learners' convolutions put to work: the sizes as a struct, random data, values in float64."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Launched
from labkit.course.exercise import Evidence
from labkit.cuda.shelf.conv_sizes import Conv
from labkit.cuda.shelf.rung import double

CONV = (
    "struct Conv { int N, C, H, W, K, P, Q, R, S, stride_h, stride_w, pad_h, pad_w, "
    "dilation_h, dilation_w, groups; };"
)
"""What stands before a learner's text; the members are those of `Conv.sizes()`, in order."""


def run(
    text: str, kernel: str, conv: Conv, grid: Any, block: Any, arrays: Sequence[Any], order: Any,
    shared_mem: int = 0, names: Sequence[str] = (),
) -> Launched:  # fmt: skip
    """A learner's kernel has run on these arrays and the sizes, with its trace.

    names  name expressions of a template; `kernel` is one of them
    """
    code = f"{CONV}\n#line 1\n{text}"
    return kernel_bench.launch(
        code, kernel, grid, block, (*arrays, conv.sizes()), order=order, trace=True,
        shared_mem=shared_mem, names=names,
    )  # fmt: skip


def lanes(done: Launched, each: Mapping[tuple[str, Any], int]) -> str:
    """What `kernel_bench.few_lanes` says, given how often a thread needs each array.

    each  (access, which array argument, or "shared") -> times one thread asks for it
    """
    assert done.report is not None
    count = kernel_bench.warps(done.report.grid, done.report.block)
    fewest = {
        (access, array if isinstance(array, str) else done.names[array]): count * times
        for (access, array), times in each.items()
    }
    return kernel_bench.few_lanes(done.report, fewest)


def data(
    conv: Conv, seed: int, infinite: bool = False, dtype: Any = np.float32
) -> tuple[Any, Any, Any]:
    """(x, w, a poisoned y) of random numbers, one of x infinite if asked for."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(conv.x).astype(dtype)
    w = generator.standard_normal(conv.w).astype(dtype)
    if infinite and x.size:
        x.reshape(-1)[generator.integers(x.size)] = np.inf
    return x, w, np.full(conv.y, np.nan, dtype)


def first_wrong(got: Any, wanted: Any, depth: int, name: str = "y") -> str:
    """Empty where all is right, else the first element that is not, in words.

    depth  products behind an element: sums of float32 may be off by 200 roundings times its root
    """
    step = 200 * float(np.finfo(got.dtype).eps)
    fine = np.isclose(
        got.astype(np.float64), wanted, rtol=step, atol=step * (1 + math.sqrt(depth)),
        equal_nan=True,
    )  # fmt: skip
    if fine.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~fine)[0])
    digits = np.finfo(got.dtype).precision
    return (
        f"{(~fine).sum()} of {fine.size} wrong; first {name}{list(at)}: {got[at]:.{digits}g}, not "
        f"{wanted[at]:.{digits}g}"
    )


def off(key: str, *words: str) -> Callable[[Evidence], bool]:
    """For hints: this entry of what was found is not right, and holds one of the words."""

    def is_off(evidence: Evidence) -> bool:
        found = evidence.value[key]
        wrong = bool(found != evidence.right[key])
        return wrong and (not words or any(word in str(found) for word in words))

    return is_off


def in_words(conv: Conv, order: Any) -> str:
    """The configuration as one line, shorter for simpler ones: only what is not the default."""
    options = {
        "stride": (conv.stride, (1, 1)),
        "padding": (conv.padding, (0, 0)),
        "dilation": (conv.dilation, (1, 1)),
        "groups": (conv.groups, 1),
    }
    unusual = "".join(f", {name} {is_}" for name, (is_, plain) in options.items() if is_ != plain)
    return f"x {list(conv.x)}, w {list(conv.w)}{unusual}: y {list(conv.y)}; thread order {order}"


def right(conv: Conv, x: Any, w: Any) -> Any:
    """The convolution in float64."""
    with np.errstate(invalid="ignore"):
        return conv.apply(double(x), double(w), None).numpy()
