"""Handles of memory that somebody else made: what happens to them, and what is released when."""

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

from labkit.course.exercise import Case, Evidence, Rng

Step = tuple[Any, ...]

ALONE = ("adopt", "view", "view", "move", "close", "close", "drop", "raise")
"""What happens to handles in one thread, and how often."""
KINDS = (*ALONE, "elsewhere", "due")


def a_life_of(*kinds: str) -> Callable[[Rng, int], tuple[list[Step]]]:
    """Random lives of handles in which these things happen."""

    def life(rng: Rng, size: int) -> tuple[list[Step]]:
        steps: list[Step] = []
        names: list[str] = []
        for number in range(3 + 4 * size):
            name = f"h{number}"
            kind = rng.choice(kinds)
            if kind == "adopt" or not names:
                steps.append(("adopt", name))
                names.append(name)
            elif kind in ("view", "move"):
                steps.append((kind, name, rng.choice(names)))
                names.append(name)
            elif kind == "due":
                steps.append((kind,))
            else:
                steps.append((kind, rng.choice(names)))
        return (steps,)

    return life


class Life:
    """Runs the steps on handles of foreign memory, and logs who released what, and where."""

    def __init__(self, handle_class: Any) -> None:
        self.make = handle_class
        self.home = threading.get_ident()
        self.handles: dict[str, Any] = {}
        self.released: list[str] = []
        self.log: list[str] = []
        self.owner = 0

    def release(self, address: int) -> None:
        """The release function of the foreign memory."""
        where = "at home" if threading.get_ident() == self.home else "in another thread"
        self.released.append(f"{address:#x} released {where}")

    def adopt(self, name: str) -> None:
        """Memory of somebody else's, of a new address."""
        self.owner += 4096
        self.handles[name] = self.make(self.owner, self.release)

    def view(self, name: str, of: str) -> None:
        """One more handle."""
        if of in self.handles:
            self._derive(name, of, "view")

    def move(self, name: str, of: str) -> None:
        """A handle that takes over from an old one."""
        if of in self.handles:
            self._derive(name, of, "move")

    def _derive(self, name: str, of: str, how: str) -> None:
        try:
            self.handles[name] = getattr(self.handles[of], how)()
        except ValueError:
            self.log.append(f"{how} of {of} refused")

    def close(self, name: str) -> None:
        """Give a handle up; it may be given up already."""
        if name in self.handles:
            self.handles[name].close()

    def drop(self, name: str) -> None:
        """The last reference to a handle goes."""
        self.handles.pop(name, None)
        gc.collect(0)

    def elsewhere(self, name: str) -> None:
        """Give a handle up in another thread."""
        if name in self.handles:
            thread = threading.Thread(target=self.handles[name].close)
            thread.start()
            thread.join()

    def due(self) -> None:
        """At home: what has to be released here is released."""
        self.make.run_due()

    def raise_(self, name: str) -> None:
        """An exception passes through `with handle`."""
        if name not in self.handles:
            return
        handle = self.handles[name]
        try:
            with handle as given:
                if given is not handle:
                    self.log.append(f"`with {name} as g`: g is {type(given).__name__}")
                raise KeyError(name)
        except KeyError:
            return
        self.log.append("the exception was swallowed")

    def step(self, kind: str, *arguments: str) -> None:
        """One step, and what was released by it."""
        getattr(self, "raise_" if kind == "raise" else kind)(*arguments)
        self.log += [f"{kind} {' '.join(arguments)}: {line}" for line in self.released]
        self.released.clear()

    def end(self) -> list[str]:
        """All handles go, here, in the order they were made; then what is due is released.

        A class that knows one thread only has nothing due.
        """
        for name in sorted(self.handles, key=lambda name: int(name[1:])):
            self.step("drop", name)
        if hasattr(self.make, "run_due"):
            self.step("due")
        return self.log


def drive_life(answer: Any, steps: list[Step]) -> list[str]:
    """What was released, and at which step."""
    life = Life(answer)
    for step in steps:
        life.step(*step)
    return life.end()


def expected_life(steps: list[Step]) -> list[str]:
    """What should have been."""
    held: dict[str, int | None] = {}
    log: list[str] = []
    due: list[int] = []
    owner = 0

    def give_up(name: str, what: str, home: bool = True) -> None:
        address = held.get(name)
        if address is None:
            return
        held[name] = None
        if address not in held.values():
            if home:
                log.append(f"{what}: {address:#x} released at home")
            else:
                due.append(address)

    def step(kind: str, *names: str) -> None:
        nonlocal owner
        what = f"{kind} {' '.join(names)}"
        if kind == "adopt":
            owner += 4096
            held[names[0]] = owner
        elif kind in ("view", "move") and names[1] in held:
            address = held[names[1]]
            if address is None:
                log.append(f"{kind} of {names[1]} refused")
                return
            held[names[0]] = address
            if kind == "move":
                held[names[1]] = None
        elif kind in ("close", "raise", "drop", "elsewhere"):
            give_up(names[0], what, kind != "elsewhere")
            if kind == "drop":
                held.pop(names[0], None)
        elif kind == "due":
            log.extend(f"{what}: {address:#x} released at home" for address in due)
            due.clear()

    for each in steps:
        step(*each)
    for name in sorted(held, key=lambda name: int(name[1:])):
        step("drop", name)
    step("due")
    return log


def released_early(evidence: Evidence) -> bool:
    """Whether an address was released twice, or at an earlier step than it should have been."""
    (steps,) = evidence.inputs
    order = [" ".join(step) for step in steps]
    ends = dict.fromkeys(step[1] for step in steps if len(step) > 1)
    order += [f"drop {name}" for name in ends]

    def released(lines: list[str]) -> dict[str, list[int]]:
        at: dict[str, list[int]] = {}
        for line in lines:
            step, _, address = line.partition(" released")[0].rpartition(": ")
            if " released" in line and step in order:
                at.setdefault(address, []).append(order.index(step))
        return at

    ours, right = released(evidence.value), released(evidence.right)
    return any(
        len(at) > 1 or at[0] < right.get(address, [len(order)])[0] for address, at in ours.items()
    )


def should_refuse(evidence: Evidence) -> bool:
    """Whether the first step that came out wrong is one that an empty handle refuses."""
    pairs = zip(evidence.right, [*evidence.value, *evidence.right], strict=False)
    first: str = next(right for right, ours in pairs if right != ours)
    return first.endswith("refused")


def fewer_lives(steps: list[Step]) -> Iterator[Any]:
    """Half of the steps, or all but one."""
    yield (steps[: len(steps) // 2],)
    for at in range(len(steps)):
        yield ([*steps[:at], *steps[at + 1 :]],)


def show_life(steps: list[Step]) -> str:
    """The steps in one line."""
    return "; ".join(f"{kind}({', '.join(names)})" for kind, *names in steps)


def lives_drawn(case: Case, got: Any, right: Any) -> Any:
    """From which step to which each handle holds memory; all that hold one address share it."""
    from labkit import show

    (steps,) = case.inputs
    held: dict[str, tuple[int, int]] = {}
    spans: list[dict[str, Any]] = []

    def give_up(name: str, now: int) -> None:
        address, since = held.pop(name, (0, 0))
        if address:
            spans.append({"lane": name, "name": f"{address:#x}", "start": since, "end": now})

    owner = 0
    for now, (kind, *names) in enumerate(steps):
        if kind == "adopt":
            owner += 4096
            held[names[0]] = owner, now
        elif kind in ("view", "move") and names[1] in held:
            held[names[0]] = held[names[1]][0], now
            if kind == "move":
                give_up(names[1], now)
        elif kind in ("close", "raise", "drop", "elsewhere"):
            give_up(names[0], now)
    for name in list(held):
        give_up(name, len(steps))
    spans.sort(key=lambda span: span["start"])
    return show.timeline(spans, title="handles, and the memory that each holds") if spans else None
