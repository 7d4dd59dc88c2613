"""Broadcasting: a shape or a refusal, the bytes of an expression, and the axis that is missing."""

import functools
import itertools
from collections import Counter
from typing import Any

import torch

from labkit.course.exercise import (
    Case,
    Evidence,
    Exercise,
    Hint,
    Raised,
    Raises,
    Rng,
    Stage,
    Wrong,
)
from labkit.course.exercises._broadcast_steps import fit, loop_strides
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice

NOTEBOOK = "1_fundamentals/5_broadcasting"

Shape = tuple[int, ...]
Named = list[tuple[str, int]]
Layout = tuple[str | None, ...]
LITERAL = "returns the literal answer of the example in the statement"
FIRST = "remembers the answer of the first random case and returns it for all later cases"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"


# --- broadcast_shapes


def _shapes(rng: Rng, size: int) -> tuple[list[Shape]]:
    """Shapes thinned from one, and quite often a few sizes spoiled."""
    rank = rng.randint(0, min(5, 1 + size // 2))
    full = [rng.choice((1, 2, 2, 3, 3, 4, 5)) for _ in range(rank)]
    if full and rng.chance(0.12):
        full[rng.randint(0, rank - 1)] = 0
    shapes = []
    for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 4))):
        kept = full[rng.randint(0, rank) :] if rng.chance(0.5) else full
        shapes.append([1 if rng.chance(0.35) else n for n in kept])
    for _ in range(rng.choice((0, 0, 1, 3))):
        if spoiled := rng.choice(shapes):
            spoiled[rng.randint(0, len(spoiled) - 1)] = rng.choice((0, 2, 3, 7))
    return ([tuple(shape) for shape in shapes],)


def _broadcast(shapes: list[Shape]) -> Any:
    """What PyTorch's addition makes of tensors of these shapes, from left to right."""
    tensors = [torch.empty(shape) for shape in shapes]
    try:
        result = functools.reduce(torch.add, tensors).shape
    except RuntimeError as error:
        return Raises(RuntimeError, str(error).splitlines()[0])
    expanded = [tensor.expand(result).stride() for tensor in tensors]
    axes = [
        tuple(axis for axis, n in enumerate(result) if n != 1 and strides[axis] == 0)
        for strides in expanded
    ]
    return tuple(result), axes


def _fewer_shapes(shapes: list[Shape]) -> Any:
    for gone in range(len(shapes)):
        if len(shapes) > 1:
            yield (shapes[:gone] + shapes[gone + 1 :],)
    for axis in range(max(map(len, shapes))):
        yield ([tuple(n for at, n in enumerate(s[::-1]) if at != axis)[::-1] for s in shapes],)


def _right_shape(evidence: Evidence) -> bool:
    """Whether the shape is right, and so the stretched axes are not."""
    got = evidence.value
    return isinstance(got, tuple) and len(got) == 2 and got[0] == evidence.right[0]


def _should_refuse(evidence: Evidence) -> bool:
    return isinstance(evidence.right, Raises)


def _works(shapes: list[Shape]) -> bool:
    return not isinstance(_broadcast(shapes), Raises)


def _aligned(case: Case, got: Any, right: Any) -> Any:
    """The shapes of a failing case, aligned from the right."""
    from labkit import show  # drawing is for a failing case alone

    (shapes,) = case.inputs
    return show.broadcast(*shapes, names=[f"shapes[{at}]" for at in range(len(shapes))])


broadcast_shapes = Exercise(
    id="broadcasting.broadcast_shapes",
    stages=(
        Stage("one shape", only=lambda shapes: len(shapes) == 1),
        Stage("two that fit", only=lambda shapes: len(shapes) == 2 and _works(shapes)),
        Stage("two that clash", only=lambda shapes: len(shapes) == 2 and not _works(shapes)),
        Stage("any number"),
    ),
    rules=("arithmetic on tuples only: no torch, no NumPy, no labkit",),
    case=_shapes,
    expected=_broadcast,
    smaller=_fewer_shapes,
    picture=_aligned,
    cases=300,
    minutes=15,
    banned=("torch.broadcast_shapes", "torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "You refuse {input}, and so does torch, in other words. The dimension counts after the "
            "alignment, from the left of the longer shape, and of several clashes the first from "
            "the right is the one that is named.",
            when=lambda e: _should_refuse(e) and e.got.startswith("raised RuntimeError"),
        ),
        Hint(
            "Torch refuses {input}. A 1 stretches. A 0 is a size like any other: it meets 0 or 1.",
            when=lambda e: _should_refuse(e) and not e.got.startswith("raised"),
        ),
        Hint(
            "Your shape is right. Fill every operand with ones in front and compare: an axis is "
            "stretched where the operand has 1 and the result has not. A 1 beside a 1 is not "
            "stretched; a 1 beside a 0 is.",
            when=_right_shape,
        ),
        Hint(
            "There is a 0 in {input}. It is a size like any other: a 1 beside it gives way.",
            when=lambda e: bool(e.inputs) and any(0 in shape for shape in e.inputs[0]),
        ),
        "Write the shapes of {input} under each other, aligned at the right, and fill the gaps "
        "with ones. Only then compare.",
        "Begin with the shape () and merge one shape after the other into it.",
    ),
    must_fail=(
        "aligns from the left",
        "accepts 0 against 3",
        "names the wrong dimension in the error",
        "stride 0 also where sizes match",
        "only two shapes",
        BANNED,
        FIRST,
        LITERAL,
    ),
)


# --- output_bytes

DTYPES = ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64")
OPERATIONS = ("add", "mul", "lt", "eq")
MOST_ELEMENTS = 100_000
"""Every tensor stays under 1 MiB: in the small pool the allocator hands out nothing but what was
asked for, rounded up to 512 bytes."""


def _a_tree(rng: Rng, size: int) -> tuple[Any]:
    full: list[int] = []
    for _ in range(rng.randint(0, 4)):
        full.append(rng.choice((1, 2, 3, 5, 17, 40, 64, 200)))
    while functools.reduce(lambda a, b: a * b, full, 1) > MOST_ELEMENTS:
        full.pop()
    if full and rng.chance(0.06):
        full[rng.randint(0, len(full) - 1)] = 0
    return (_grow(rng, 1 + rng.randint(0, size), full),)


def _grow(rng: Rng, operations: int, full: list[int], may_be_number: bool = False) -> Any:
    """An expression with so many operations; every leaf broadcasts to the full shape."""
    if operations == 0:
        if may_be_number and rng.chance(0.2):
            return ("number", rng.choice((True, 3, -7, 0.5)))
        kept = full[rng.randint(0, len(full)) :] if rng.chance(0.4) else full
        sizes = tuple(1 if rng.chance(0.3) else n for n in kept)
        return ("tensor", sizes, rng.choice(DTYPES))
    left = rng.randint(0, operations - 1)
    return (
        rng.choice(OPERATIONS),
        _grow(rng, left, full),
        _grow(rng, operations - 1 - left, full, may_be_number=True),
    )


def _recorded(tree: Any) -> dict[str, int]:
    """By running it: shapes and dtypes by torch without memory, bytes by labkit's allocator."""
    allocator = CachingAllocator(SimulatedDevice(1 << 40))
    bytes_read = bytes_written = 0

    def run(node: Any) -> tuple[Any, int]:
        nonlocal bytes_read, bytes_written
        kind, *rest = node
        if kind == "number":
            return rest[0], 0
        if kind == "tensor":
            return torch.empty(rest[0], dtype=getattr(torch, rest[1]), device="meta"), 0
        operands = [run(child) for child in rest]
        result = getattr(torch, kind)(*[value for value, _ in operands])
        if result.numel():
            tensors = [value for value, _ in operands if isinstance(value, torch.Tensor)]
            bytes_read += sum(tensor.nbytes for tensor in tensors)
        bytes_written += result.nbytes
        address = allocator.malloc(result.nbytes)
        for _, held in operands:
            if held:
                allocator.free(held)
        return result, address

    run(tree)
    peak = allocator.memory_stats()["allocated_bytes.all.peak"]
    return {"read": bytes_read, "written": bytes_written, "peak": peak}


def _subtrees(tree: Any) -> Any:
    for child in tree[1:]:
        if child[0] in OPERATIONS:
            yield (child,)


def _figure(name: str, test: Any) -> Any:
    """True where one of the three figures stands to the right one as the test says."""

    def when(evidence: Evidence) -> bool:
        return bool(test(evidence.value[name], evidence.right[name]))

    return when


def _has_an_empty_result(tree: Any) -> bool:
    """Whether some operation of the expression makes no element."""
    inside = any(_has_an_empty_result(part) for part in tree[1:] if part[0] in OPERATIONS)
    return inside or _recorded(tree)["written"] == 0


_reads_too_much = _figure("read", lambda got, right: got > right)


def _numbers(tree: Any) -> bool:
    """Whether a Python number stands in the expression."""
    return tree[0] == "number" or (tree[0] != "tensor" and any(map(_numbers, tree[1:])))


def _operations(tree: Any) -> int:
    if tree[0] in ("tensor", "number"):
        return 0
    return 1 + sum(_operations(part) for part in tree[1:])


output_bytes = Exercise(
    id="broadcasting.output_bytes",
    stages=(
        Stage("one operation", only=lambda tree: _operations(tree) == 1 and not _numbers(tree)),
        Stage("numbers", only=lambda tree: _operations(tree) == 1 and _numbers(tree)),
        Stage("trees"),
    ),
    rules=("torch on device='meta' may tell you dtypes and shapes; no labkit.memory",),
    case=_a_tree,
    expected=_recorded,
    smaller=_subtrees,
    cases=240,
    seconds=10.0,  # the first call on the meta device imports for seconds
    sizes=6,
    minutes=15,
    banned=("labkit.memory.*",),
    hints=(
        Hint(
            "A result here is empty: its loop visits no place, so that operation reads nothing. "
            "result.numel() tells.",
            when=lambda e: _reads_too_much(e) and _has_an_empty_result(*e.inputs),
        ),
        Hint(
            "You read too much. Each operand counts once, at its own size: a stretched cell is "
            "visited again and again, but it is one cell in memory.",
            when=lambda e: _reads_too_much(e) and not _has_an_empty_result(*e.inputs),
        ),
        Hint(
            "The peak is no multiple of 512. The allocator rounds every result up before it hands "
            "it out.",
            when=_figure("peak", lambda got, right: got % 512 != 0),
        ),
        Hint(
            "The peak is too high. Walk in the order of evaluation: left, right, allocate the "
            "result, then free the operands that were results themselves.",
            when=_figure("peak", lambda got, right: got > right),
        ),
        Hint(
            "The peak is too low. While an operation runs, its operands and its result are all "
            "there; and a finished left operand waits while the right one is computed.",
            when=_figure("peak", lambda got, right: got < right),
        ),
        Hint(
            "Each result is written once, in the dtype of the result: bool for lt and eq, the "
            "promoted dtype otherwise.",
            when=_figure("written", lambda got, right: got != right),
        ),
        "Take the three figures one at a time, in the order read, written, peak. Which is wrong "
        "in {input}? Expected {expected}, got {got}.",
        "Write a recursive function that returns what is left of a node: its sizes, its dtype, "
        "and the bytes its result holds.",
    ),
    must_fail=(
        "counts inputs at expanded size",
        "keeps all intermediates alive",
        "ignores dtype promotion",
        "ignores the 512-byte granule",
        "counts the result once per operand",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        FIRST,
    ),
)


# --- find_the_missing_axis

NAMES = ("batch", "time", "row", "col", "head", "channel")


def _a_problem(rng: Rng, size: int) -> tuple[Named, Named, Named]:
    names = rng.sample(NAMES, rng.randint(1, min(4, 2 + size // 2)))
    square = rng.choice((2, 3)) if rng.chance(0.3) else None
    sizes = {name: square or rng.choice((2, 3, 3, 4, 5)) for name in names}
    if rng.chance(0.04):
        sizes[rng.choice(names)] = 0
    twice = set(rng.sample(names, rng.choice((0, 0, 1, 1, 2)) if len(names) > 1 else 0))
    a = {name: sizes[name] for name in names if name in twice or rng.chance(0.65)}
    b = {name: n for name, n in sizes.items() if name in twice or name not in a or rng.chance(0.3)}
    result = list(sizes.items())
    for name in sorted(twice):
        if square is None and rng.chance(0.5):
            b[name] = rng.choice((2, 3, 4, 5))
        result.append((name, b[name]))
    for operand, other in ((a, b), (b, a)):
        for name in operand:
            if name in other and name not in twice and other[name] != 1 and rng.chance(0.08):
                operand[name] = 1
    rng.shuffle(result)
    kind = rng.random()
    if kind < 0.06:
        at = rng.randint(0, len(result) - 1)
        result[at] = (result[at][0], result[at][1] + 1)
    elif kind < 0.12 and len(result) > 1:
        result.pop()
    return _shuffled(rng, a), _shuffled(rng, b), result


def _shuffled(rng: Rng, axes: dict[str, int]) -> Named:
    listed = list(axes.items())
    if rng.chance(0.6):
        rng.shuffle(listed)
    return listed


def _layouts(axes: Named, result: Named) -> list[Layout]:
    """Every way to put the axes on places of the same name in the result."""
    options = [[place for place, (name, _) in enumerate(result) if name == own] for own, _ in axes]
    found = []
    for places in itertools.product(*options):
        layout: list[str | None] = [None] * len(result)
        for (name, _), place in zip(axes, places, strict=True):
            layout[place] = name
        found.append(tuple(layout))
    return found


def _valid(a: Named, b: Named, result: Named) -> set[tuple[Layout, Layout]]:
    """The pairs of layouts that fill every place of the result and broadcast to its sizes."""
    found = set()
    for pair in itertools.product(_layouts(a, result), _layouts(b, result)):
        fits = True
        for place, (_, size) in enumerate(result):
            here = [
                size
                for axes, layout in zip((a, b), pair, strict=True)
                for name, size in axes
                if name == layout[place]
            ]
            stretched = {n for n in here if n != 1} or {1}
            fits = fits and bool(here) and stretched == {size}
        if fits:
            found.add(pair)
    return found


def _einsum(layouts: tuple[Layout, Layout], a: Named, b: Named, tensors: Any) -> torch.Tensor:
    """The product of all pairs that belong together, without any view of either tensor."""
    letters = [
        "".join(chr(ord("a") + layout.index(name)) for name, _ in axes)
        for axes, layout in zip((a, b), layouts, strict=True)
    ]
    wanted = "".join(chr(ord("a") + place) for place in range(len(layouts[0])))
    product: torch.Tensor = torch.einsum(f"{letters[0]},{letters[1]}->{wanted}", *tensors)
    return product


def _walk(axes: Named, steps: Any, rank: int) -> Layout | str:
    """Where the axes stand after the steps, counted from the right; or what is wrong with them."""
    layout: list[str | None] = [name for name, _ in axes]
    for step in steps:
        kind, *dims = step if isinstance(step, (tuple, list)) and step else (step,)
        number = {"unsqueeze": 1, "transpose": 2}.get(kind if isinstance(kind, str) else "")
        if number != len(dims) or any(type(dim) is not int for dim in dims):
            return f"{step!r} is neither ('unsqueeze', dim) nor ('transpose', dim0, dim1)"
        room = len(layout) + (kind == "unsqueeze")
        if any(not -room <= dim < room for dim in dims):
            return f"{step!r}: there is no such dimension among {room}"
        dims = [dim % room for dim in dims]
        if kind == "unsqueeze":
            layout.insert(dims[0], None)
        else:
            one, other = dims
            layout[one], layout[other] = layout[other], layout[one]
    if len(layout) > rank:
        return f"{steps!r} leaves {len(layout)} axes, and the result has {rank}"
    return (*[None] * (rank - len(layout)), *layout)


def _judge_steps(case: Case, got: Any) -> str | Wrong | None:
    a, b, result = case.inputs
    right = _valid(a, b, result)
    if isinstance(got, Raised) or not isinstance(got, list):
        return "it should return a list of answers (an empty one where there is none)"
    data = torch.Generator().manual_seed(len(got))
    tensors = [
        torch.randint(1, 1_000, [n for _, n in axes], generator=data).double() for axes in (a, b)
    ]
    products = {pair: _einsum(pair, a, b, tensors) for pair in right}
    seen: list[Any] = []
    for answer in got:
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            return f"an answer is a pair (steps of a, steps of b), not {answer!r}"
        if not all(isinstance(steps, (tuple, list)) for steps in answer):
            return f"the steps of an operand are a list, not {answer!r}"
        layouts = [_walk(axes, one, len(result)) for axes, one in zip((a, b), answer, strict=True)]
        if broken := [layout for layout in layouts if isinstance(layout, str)]:
            return broken[0]
        moved = [_moved(tensor, steps) for tensor, steps in zip(tensors, answer, strict=True)]
        if _refused(moved):
            return f"after {answer!r} the shapes {[tuple(t.shape) for t in moved]} do not broadcast"
        pair = tuple(layouts)
        product = moved[0] * moved[1]
        if pair not in products or not torch.equal(product, products[pair]):
            reached = [x or y or "-" for x, y in zip(*pair, strict=True)]
            return Wrong(
                f"{answer!r} gives sizes {tuple(product.shape)} under the names {reached}",
                [f"{name} of {size}" for name, size in result],
            )
        if pair in seen:
            return f"{answer!r} is an answer you gave already"
        seen.append(pair)
    if len(seen) != len(right):
        return f"{len(seen)} valid answers were returned, and there are {len(right)}"
    return None


def _moved(tensor: torch.Tensor, steps: Any) -> torch.Tensor:
    for kind, *dims in steps:
        tensor = getattr(tensor, kind)(*dims)
    return tensor


def _refused(tensors: list[torch.Tensor]) -> bool:
    try:
        torch.broadcast_shapes(*[tensor.shape for tensor in tensors])
    except RuntimeError:
        return True
    return False


def _is_square(evidence: Evidence) -> bool:
    sizes = [size for axes in evidence.inputs[:2] for _, size in dict(axes).items()]
    return max(Counter(sizes).values()) > 1


find_the_missing_axis = Exercise(
    id="broadcasting.find_the_missing_axis",
    rung="boss",
    rules=("names decide; two lists of steps that end in the same arrangement are one answer",),
    case=_a_problem,
    judge=_judge_steps,
    cases=320,
    minutes=40,
    hints=(
        Hint(
            "Square sizes hide your mistake: in {input} different axes have equal sizes. Test with "
            "3 and 5.",
            when=lambda e: "under the names" in e.property and _is_square(e),
        ),
        Hint(
            "{got} is not all, or too much. A name that stands twice in the result leaves a "
            "choice: a on the first place and b on the second, or the other way round, if the "
            "sizes allow it. Without a place for every name there is no answer at all.",
            when=lambda e: "there are" in e.property,
        ),
        Hint(
            "Stretching is left to broadcasting. You only say where the new axis of size 1 stands.",
            when=lambda e: "is neither" in e.property,
        ),
        "Names decide, sizes do not. First find, for every axis of an operand, its places in the "
        "result.",
        "Order the axes like the result (transposes), then insert ones for the missing names "
        "(unsqueeze), from the left to the right.",
    ),
    must_fail=(
        "reshapes when sizes happen to match",
        "adds axes only in front",
        "picks the first of two valid answers",
        "uses expand instead of unsqueeze",
        "is right only for square, even or contiguous shapes",
        FIRST,
        LITERAL,
    ),
)

EXERCISES = (fit, loop_strides, broadcast_shapes, output_bytes, find_the_missing_axis)
