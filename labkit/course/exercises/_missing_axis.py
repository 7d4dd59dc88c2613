"""Two named layouts that must meet: which axis is missing, and the steps that put it there."""

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
    Rng,
    Wrong,
)
from labkit.course.exercises._never_right import CONSTANT, FIRST

Named = list[tuple[str, int]]
Layout = tuple[str | None, ...]
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
        CONSTANT,
    ),
)
