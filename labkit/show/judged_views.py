"""Your tensor beside the expected one: the first element that is wrong, outlined in both."""

from collections.abc import Callable, Sequence
from itertools import islice, product
from typing import Any

from labkit.show.views import View, decode
from labkit.widgets.strides.affine import address

MOST_COMPARED = 65_536
Index = tuple[int, ...]


def judged(views: Sequence[View], names: Sequence[str]) -> dict[str, Any]:
    """The note, marks and selection of a StrideView that shows a tensor beside the expected one.

    Raises   ValueError   other than two tensors
    """
    if len(views) != 2:
        raise ValueError(f"compare takes yours and the expected tensor, got {len(views)}")
    yours, expected = views
    mine, theirs = names
    if yours.sizes != expected.sizes:
        sizes = [list(view.sizes) for view in views]
        return {"note": f"✗ {mine} has sizes {sizes[0]}, expected {sizes[1]}"}
    together = _same_cells(yours, expected)
    read = [_reader(view, together) for view in views]
    every = product(*(range(size) for size in yours.sizes))
    wrong = next((at for at in islice(every, MOST_COMPARED) if read[0](at) != read[1](at)), None)
    if wrong is None:
        what = "read the same elements" if together else "hold the same values"
        return {"note": f"✓ {mine} and {theirs} {what}", "linked": True}
    place = f"[{', '.join(map(str, wrong))}]"
    verb = "reads element" if together else "holds"
    return {
        "note": f"✗ first wrong element: {mine}{place} {verb} {read[0](wrong)}, "
        f"{theirs}{place} {verb} {read[1](wrong)}",
        "marks": [{"view": n, "index": list(wrong), "right": n == 1} for n in (0, 1)],
        "selected": {"view": 0, "index": list(wrong)},
        "linked": True,
    }


def _same_cells(one: View, other: View) -> bool:
    return one.memory.owner == other.memory.owner and one.dtype == other.dtype


def _reader(view: View, together: bool) -> Callable[[Index], str]:
    """What is found at an index: the element's place in one memory, else its value."""
    raw = None if together or view.memory.read is None else view.memory.read()
    elements = None if raw is None else decode(raw, view.dtype)

    def read(index: Index) -> str:
        at = address(index, view.strides, view.offset)
        return str(at) if elements is None else str(elements[at])

    return read
