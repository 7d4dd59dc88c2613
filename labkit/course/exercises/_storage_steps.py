"""The small steps of the storage chapter: one holder less, and the base of a view."""

from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, handed_out
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES


class Held:
    """A storage as version 2 has it: cells, and how many tensors hold them."""

    def __init__(self, cells: str, count: int) -> None:
        self.cells, self.count = cells, count


def _some_releases(rng: Rng, size: int) -> tuple[list[int], list[int]]:
    """The counts of some storages, and which of them loses a holder, one after the other."""
    counts = [rng.randint(1, 1 + size // 2) for _ in range(1 + size // 3)]
    releases = [place for place, count in enumerate(counts) for _ in range(count)]
    rng.shuffle(releases)
    return counts, releases[: rng.randint(1, len(releases))]


def _released(counts: list[int], releases: list[int]) -> list[dict[str, Any]]:
    left, given, seen = list(counts), [], []
    for place in releases:
        left[place] -= 1
        if left[place] == 0:
            given.append(f"cells of storage {place}")
        seen.append({"count": left[place], "given back": list(given)})
    return seen


def _drive_releases(answer: Any, counts: list[int], releases: list[int]) -> list[dict[str, Any]]:
    """After every call: the storage's count, and what has been given back so far."""
    stores = [Held(f"cells of storage {place}", count) for place, count in enumerate(counts)]
    given: list[Any] = []
    seen = []
    for place in releases:
        answer(stores[place], given.append)
        seen.append({"count": stores[place].count, "given back": list(given)})
    return seen


def _calls(counts: list[int], releases: list[int]) -> str:
    calls = ", ".join(f"storage {place}" for place in releases)
    return f"counts {counts}; then release is called for {calls}"


def _first_difference(evidence: Evidence) -> tuple[Any, Any]:
    return next(pair for pair in zip(evidence.value, evidence.right, strict=True) if _differ(pair))


def _differ(pair: tuple[Any, Any]) -> bool:
    return bool(pair[0] != pair[1])


def _given(evidence: Evidence) -> tuple[int, int]:
    """How much was given back, and how much should have been, at the first difference."""
    got, right = _first_difference(evidence)
    return len(got["given back"]), len(right["given back"])


release = Exercise(
    id="tensor_and_storage.release",
    rung="warm-up",
    case=_some_releases,
    expected=_released,
    drive=_drive_releases,
    show=_calls,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=80,
    minutes=3,
    hints=(
        Hint(
            "The count is wrong: each call takes one off storage.count.",
            when=lambda e: _first_difference(e)[0]["count"] != _first_difference(e)[1]["count"],
        ),
        Hint(
            "Cells were given back while somebody still held them.",
            when=lambda e: _given(e)[0] > _given(e)[1],
        ),
        Hint(
            "The last holder is gone, and the cells were not given back. First take one off the "
            "count, then ask whether it is 0.",
            when=lambda e: _given(e)[0] < _given(e)[1],
        ),
        "Take one off the count, look whether it is 0 now, and only then give storage.cells back.",
    ),
    must_fail=(
        "gives back at every call",
        "never gives back",
        "looks before it counts down",
        "hands over the storage, not its cells",
        "does not count",
    ),
)


class Tensor:
    """As version 3 has it: all that matters here is the base."""

    def __init__(self, base: "Tensor | None") -> None:
        self.base = base


def _some_views(rng: Rng, size: int) -> tuple[list[int | None]]:
    """Per tensor, which earlier one it is a view of; None for one with a storage of its own."""
    taken: list[int | None] = [None]
    for number in range(1, 2 + size):
        taken.append(None if rng.chance(0.2) else rng.randint(0, number - 1))
    return (taken,)


def _bases(taken: list[int | None]) -> list[str | None]:
    roots: list[int | None] = []
    for of in taken:
        roots.append(None if of is None else of if roots[of] is None else roots[of])
    return [None if root is None else _name(root) for root in roots]


@handed_out
def _name(number: int) -> str:
    return "abcdefghijklm"[number]


def _drive_views(answer: Any, taken: list[int | None]) -> list[str | None]:
    """The name of every tensor's base, each view made with what the answer says."""
    tensors: list[Tensor] = []
    for of in taken:
        tensors.append(Tensor(None if of is None else answer(tensors[of])))
    names = {id(tensor): _name(number) for number, tensor in enumerate(tensors)}
    return [
        None if each.base is None else names.get(id(each.base), f"a {type(each.base).__name__}")
        for each in tensors
    ]


def _views_shown(taken: list[int | None]) -> str:
    return ", ".join(
        f"{_name(number)} has a storage of its own"
        if of is None
        else f"{_name(number)} is a view of {_name(of)}"
        for number, of in enumerate(taken)
    )


base_of = Exercise(
    id="tensor_and_storage.base_of",
    rung="warm-up",
    case=_some_views,
    expected=_bases,
    drive=_drive_views,
    show=_views_shown,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=80,
    minutes=4,
    hints=(
        Hint(
            "A view got None as its base. If the tensor is no view itself, it is the base.",
            when=lambda e: any(
                got is None and right is not None
                for got, right in zip(e.value, e.right, strict=True)
            ),
        ),
        Hint(
            "A view of a view got the wrong base: the tensor it is taken from is a view, and has "
            "a base already. Hand that one on.",
            when=lambda e: all(
                got is not None or right is None
                for got, right in zip(e.value, e.right, strict=True)
            ),
        ),
        "Two cases: tensor.base is None, or it is not. Ask with `is None`.",
    ),
    must_fail=(
        "takes the tensor itself, though it is a view",
        "takes the base of a tensor that has none",
        "makes a new tensor",
    ),
)
