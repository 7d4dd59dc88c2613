"""From THStorage to StorageImpl: counts inside the object, bytes without a type, and old names."""

from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._old_names import today

NOTEBOOK = "2_core_code/5_from_thstorage_to_storageimpl"


# --- count_after


def _some_hands(rng: Rng, size: int) -> tuple[list[str]]:
    """What happens to one object, from the moment it is made until somebody still holds it."""
    events, handles, raw = ["make"], 1, 0
    for _ in range(2 * size):
        open_now = ["copy"] * bool(handles) + ["drop"] * (handles + raw > 1 and handles > 0)
        open_now += ["release"] * bool(handles) + ["reclaim"] * 2 * bool(raw)
        event = rng.choice(open_now)
        handles += {"copy": 1, "drop": -1, "release": -1, "reclaim": 1}[event]
        raw += {"release": 1, "reclaim": -1}.get(event, 0)
        events.append(event)
    return (events,)


def _count(events: list[str]) -> int:
    return events.count("make") + events.count("copy") - events.count("drop")


count_after = Exercise(
    id="from_thstorage_to_storageimpl.count_after",
    rung="warm-up",
    case=_some_hands,
    expected=_count,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "Yours is too small. Which events take one off? A release hands the duty over.",
            when=lambda e: e.value < e.right,
        ),
        Hint(
            "Yours is too large. Which events add one? A reclaim takes over what is counted.",
            when=lambda e: e.value > e.right,
        ),
        "Three of the five events change the count.",
    ),
    must_fail=(
        "release takes one off",
        "reclaim adds one",
        "the last event decides",
        "forgets that a new object has one holder",
    ),
)


# --- lost


def _some_types(rng: Rng, size: int) -> tuple[int, list[int]]:
    """A size in bytes, and the item sizes it is retyped with, one after the other."""
    widths = [rng.choice((1, 2, 4, 8, 16)) for _ in range(1 + size // 2)]
    return rng.randint(0, 4 + 6 * size), widths


def _lost(nbytes: int, itemsizes: list[int]) -> int:
    left = nbytes
    for itemsize in itemsizes:
        left = left // itemsize * itemsize
    return nbytes - left


lost = Exercise(
    id="from_thstorage_to_storageimpl.lost",
    rung="warm-up",
    case=_some_types,
    expected=_lost,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "With one type it is nbytes % itemsize. With more of them, each begins with what the "
            "one before it left.",
            when=lambda e: len(e.inputs[1]) > 1,
        ),
        "How many whole elements fit, and how many bytes are they?",
        "After each type, take off what does not fill a whole element; at the end, subtract.",
    ),
    must_fail=(
        "asks the last type alone",
        "adds up what each type alone would lose",
        "counts what is left",
        "counts elements",
    ),
)


# --- apply


class Target:
    """An object with its two counts, as a new one has them, and a list of what became of it."""

    def __init__(self) -> None:
        self.refcount, self.weakcount = 1, 1
        self.log: list[str] = []

    def release_resources(self) -> None:
        """The bytes go back."""
        self.log.append("bytes")

    def delete(self) -> None:
        """The object goes, with its counts."""
        self.log.append("object")


class _Life:
    """Random events that may really happen to one object, and what they come to."""

    def __init__(self) -> None:
        self.handles, self.raw, self.watchers, self.gone = 1, 0, 0, False

    def possible(self) -> list[str]:
        """What may happen next; nothing, once the object is gone."""
        if self.gone:
            return []
        found = ["copy", "drop", "release"] if self.handles else []
        found += ["reclaim"] if self.raw else []
        found += ["watch"] if self.handles or self.watchers else []
        return found + (["unwatch", "lock"] if self.watchers else [])

    def happens(self, event: str) -> dict[str, Any]:
        """What is so after it."""
        was = self.handles + self.raw
        locked = event == "lock" and was > 0
        self.handles += {"copy": 1, "drop": -1, "release": -1, "reclaim": 1}.get(event, 0) + locked
        self.raw += {"release": 1, "reclaim": -1}.get(event, 0)
        self.watchers += {"watch": 1, "unwatch": -1}.get(event, 0)
        strong = self.handles + self.raw
        self.gone = strong == self.watchers == 0
        log = ["bytes"] * (was > 0 and strong == 0) + ["object"] * self.gone
        answer = locked if event == "lock" else None
        return {"event": event, "refcount": strong, "goes back": log, "returned": answer}


EARLY = ("copy", "drop")
HANDED = (*EARLY, "release", "reclaim")


def _some_life(*kinds: str) -> Any:
    """Events of these kinds; of every kind when none is named."""

    def make(rng: Rng, size: int) -> tuple[list[str]]:
        life, events = _Life(), []
        for _ in range(2 + 2 * size):
            fit = [event for event in life.possible() if not kinds or event in kinds]
            if not fit:
                break
            events.append(rng.choice(fit))
            life.happens(events[-1])
        return (events,)

    return make


def _lived(events: list[str]) -> list[dict[str, Any]]:
    life = _Life()
    return [life.happens(event) for event in events]


def _drive_life(answer: Any, events: list[str]) -> list[dict[str, Any]]:
    """After every event: the strong count, what went back by it, and what was returned."""
    target, seen = Target(), []
    for event in events:
        target.log.clear()
        got = answer(target, event)
        after = {"refcount": target.refcount, "goes back": list(target.log)}
        seen.append({"event": event, **after, "returned": got})
    return seen


def _parting(evidence: Evidence) -> tuple[dict[str, Any], dict[str, Any]]:
    """Yours and the right one, after the first event where they differ."""
    pairs = zip(evidence.value, evidence.right, strict=True)
    return next((got, right) for got, right in pairs if got != right)


def _at(*events: str) -> Any:
    return lambda evidence: _parting(evidence)[1]["event"] in events


def _steps(case: Any, got: Any, right: Any) -> Any:
    """The events as a walk, opened where the two part."""
    from labkit.widgets.graph.graph_view import GraphView

    if not isinstance(got, list) or len(got) != len(right):
        return None
    nodes = [{"label": "yours", "kind": "yours"}, {"label": "right", "kind": "right"}]
    frames = []
    for mine, true in zip(got, right, strict=True):
        notes = {i: _in_words(one) for i, one in enumerate((mine, true))}
        same = mine == true
        marks = {0: "done" if same else "error", 1: "done"}
        frames.append({"text": true["event"], "notes": notes, "marks": marks})
    first = next((i for i, (a, b) in enumerate(zip(got, right, strict=True)) if a != b), 0)
    return GraphView(nodes, [], frames, simple=True).open_at(first + 1)


def _in_words(one: dict[str, Any]) -> str:
    back = "".join(f", {name} back" for name in one["goes back"])
    return f"count {one['refcount']}{back}"


apply = Exercise(
    id="from_thstorage_to_storageimpl.apply",
    rung="core",
    case=_some_life(),
    expected=_lived,
    drive=_drive_life,
    picture=_steps,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=120,
    minutes=15,
    stages=(
        Stage("copy and drop", case=_some_life(*EARLY), cases=20),
        Stage("release", case=_some_life(*HANDED), cases=30),
        Stage("watch", case=_some_life(*EARLY, "watch", "unwatch"), cases=40),
        Stage("lock"),
    ),
    hints=(
        Hint(
            "A release or a reclaim changed something. They hand the duty over, and "
            "change no count.",
            when=_at("release", "reclaim"),
        ),
        Hint(
            "The object went while a weak pointer may still ask it, or it did not go with the last "
            "of them. All strong holders together hold one weak count, and give it up at 0.",
            when=lambda e: _parting(e)[0]["goes back"] != _parting(e)[1]["goes back"],
        ),
        Hint(
            "A lock that works makes one strong holder more: it counts, and lock returns True.",
            when=lambda e: _at("lock")(e) and _parting(e)[1]["returned"],
        ),
        Hint(
            "lock returns whether it worked. At a strong count of 0 the bytes are gone: it changes "
            "nothing and returns False.",
            when=_at("lock"),
        ),
        "Write drop and unwatch first: each takes one off its own count and looks for 0.",
    ),
    must_fail=(
        "release takes one off",
        "a weak pointer keeps the bytes alive",
        "the object goes with its bytes",
        "the bytes go back twice",
        "lock revives what is dead",
        "a lock does not count",
        "the object never goes",
        FIRST,
    ),
)


EXERCISES = (count_after, lost, apply, today)
