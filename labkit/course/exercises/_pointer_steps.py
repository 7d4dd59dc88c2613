"""The small steps of the allocator chapter: an owner that moves, and who serves."""

import gc
from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng

PLAIN = ("plain Python: nothing of labkit",)


class Owner:
    """Owns an address: the deleter is called when it goes."""

    def __init__(self, address: int, deleter: Any = None) -> None:
        self.address, self.deleter = address, deleter

    def __del__(self) -> None:
        if self.deleter is not None:
            self.deleter(self.address)


def _two_owners(rng: Rng, size: int) -> tuple[int, int]:
    return 4096 * rng.randint(1, 99), 4096 * rng.randint(100, 199)


def _moved(answer: Any, *addresses: int) -> list[str]:
    """The first address is moved, twice; the second is somebody else's."""
    freed: list[int] = []
    old, other = (Owner(address, freed.append) for address in addresses)
    first = answer(old)
    log = [f"old: {old.address}, deleter {old.deleter and 'still there'}, freed {freed}"]
    second = answer(first)
    log.append(f"first new one: {first.address}, second: {second.address}, freed {freed}")
    del old, first
    gc.collect(0)
    log.append(f"old and first are gone: freed {freed}")
    del second
    gc.collect(0)
    log.append(f"all are gone: freed {freed}")
    del other
    return log


def _owned_once(address: int, other: int) -> list[str]:
    return [
        "old: 0, deleter None, freed []",
        f"first new one: 0, second: {address}, freed []",
        "old and first are gone: freed []",
        f"all are gone: freed [{address}]",
    ]


def _line(evidence: Evidence, number: int) -> bool:
    """Whether this line is the first that is wrong."""
    pairs = list(zip(evidence.value, evidence.right, strict=True))
    return pairs[:number] == [(b, b) for _, b in pairs[:number]] and len(set(pairs[number])) == 2


move = Exercise(
    id="host_allocators.move",
    case=_two_owners,
    expected=_owned_once,
    drive=_moved,
    rung="warm-up",
    rules=PLAIN,
    cases=20,
    minutes=4,
    banned=("labkit.core.allocator", "labkit.core.storage"),
    hints=(
        Hint(
            "Look at the old one after the move: its address should be 0, its deleter None, and "
            "nothing freed.",
            when=lambda e: _line(e, 0),
        ),
        Hint(
            "The new one got nothing: was the old one emptied before you read it?",
            when=lambda e: _line(e, 1),
        ),
        "Make the new one from the old one's address and deleter, first. Then empty the old one. "
        "Then return the new one.",
    ),
    must_fail=("leaves the old one as it is", "empties before it reads", "frees at the move"),
)


def _registrations(rng: Rng, size: int) -> tuple[list[tuple[str, int]]]:
    names = rng.sample("ABCDEFGH", rng.randint(1, min(8, 2 + size)))
    return ([(name, rng.randint(0, 3)) for name in names],)


def _the_one_that_serves(registrations: list[tuple[str, int]]) -> str:
    highest = max(priority for _, priority in registrations)
    return [name for name, priority in registrations if priority == highest][-1]


serves = Exercise(
    id="host_allocators.serves",
    case=_registrations,
    expected=_the_one_that_serves,
    rung="warm-up",
    rules=PLAIN,
    cases=80,
    minutes=3,
    banned=("labkit.core.allocator", "labkit.core.storage"),
    hints=(
        Hint(
            "Two of them have the same priority. The later one replaces the earlier: {expected}.",
            when=lambda e: dict(e.inputs[0]).get(e.value) == dict(e.inputs[0])[e.right],
        ),
        "Go through them in order, and remember who serves, with its priority. When does the next "
        "one take over?",
        "It takes over when its priority is at least as high as that of the one who serves.",
    ),
    must_fail=("the last one", "the first of the highest", "the lowest priority"),
)
