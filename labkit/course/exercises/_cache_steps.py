"""The small steps of a cache on disk: its key, and what may come out of a file."""

import builtins
import io
import pickle
from typing import Any
from unittest import mock

import torch

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Wrong, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

Wish = tuple[str, int, dict[str, int]]


def _wishes(rng: Rng, size: int) -> tuple[list[Wish]]:
    films, names = ("a", "b", "a1"), ("blur", "gain", "gain1")
    found: list[Wish] = []
    for _ in range(3 + 2 * size):
        chosen = [name for name in names if rng.chance(0.4)]
        rng.shuffle(chosen)
        settings = {name: rng.choice((1, 2, 12)) for name in chosen}
        found.append((rng.choice(films), rng.choice((1, 2, 11, 12)), settings))
    film, frame, settings = rng.choice(found)
    found.append((film, frame, dict(reversed(settings.items()))))
    return (found,)


def _drive_keys(answer: Any, wishes: list[Wish]) -> dict[str, list[Any]]:
    """The keys of one process, and of the next one, where `hash` gives other numbers."""
    here = [answer(*wish) for wish in wishes]
    with mock.patch.object(builtins, "hash", _hash_of_the_next_process):
        return {"keys": here, "in the next process": [answer(*wish) for wish in wishes]}


@handed_out
def _hash_of_the_next_process(one: object) -> int:
    return ~one.__hash__()


def _judge_keys(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "cache_key(film, frame, settings) returns a text"
    (wishes,), later = case.inputs, got["in the next process"]
    got = got["keys"]
    if not all(isinstance(key, str) for key in got):
        return "every key is a text"
    if later != got:
        return Wrong("the next process makes the same keys", got)
    for at, one in enumerate(wishes):
        for other in range(at):
            if (one == wishes[other]) != (got[at] == got[other]):
                alike = "one key" if one == wishes[other] else "two keys"
                return Wrong(f"{wishes[other]} and {one} have {alike}")
    return None


def _one_left_out(evidence: Any) -> bool:
    """Whether the two requests with one key differ in one of the three only: it was left out."""
    (wishes,), got = evidence.inputs, evidence.value["keys"]
    pairs = [(one, other) for at, one in enumerate(wishes) for n, other in enumerate(wishes[:at])
             if got[at] == got[n] and one != other]  # fmt: skip
    return any(sum(a != b for a, b in zip(*pair, strict=True)) == 1 for pair in pairs)


cache_key = Exercise(
    id="kept_results.cache_key",
    case=_wishes,
    judge=_judge_keys,
    drive=_drive_keys,
    rung="warm-up",
    minutes=3,
    cases=40,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Python's `hash` gives other numbers in the next process. Use the text itself.",
            when=lambda e: "next process" in e.property,
        ),
        Hint(
            "The same settings came in another order, and are still the same: sort them.",
            when=lambda e: "one key" in e.property,
        ),
        Hint(
            "Two different requests got one key. Are film, frame and all settings in it?",
            when=lambda e: "two keys" in e.property and _one_left_out(e),
        ),
        Hint(
            "Film, frame and settings are all in it, but it is not clear where one ends and the "
            "next begins.",
            when=lambda e: "two keys" in e.property,
        ),
        "repr of a tuple says all that is in it, and where each part ends.",
        "sorted(settings.items()) has one order only.",
    ),
    must_fail=("the frame number only", "without the settings", "only joins the texts",
               "keeps the order of the settings", "joins names and values", "uses Python's hash"),
)  # fmt: skip


# --- unpacked

RAN: list[str] = []
"""What a file had done that was loaded: any program that it named."""


class Program:
    """An object whose pickle says: call this function when I am loaded."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _ran, ("a program of the file ran",)


@handed_out
def _ran(what: str) -> str:
    RAN.append(what)
    return what


@handed_out
def content_of(kind: str, numbers: list[int]) -> bytes:
    """A file's content of this kind."""
    file = io.BytesIO()
    frame = torch.tensor([numbers], dtype=torch.uint8)
    if kind == "a plain pickle":
        return pickle.dumps(Program(), protocol=2)
    torch.save(
        {
            "a frame": frame,
            "a program": Program(),
            "a program in a list": [frame, Program()],
            "a program in a dict": {"frame": frame, "note": Program()},
            "a number": 7,
            "a list": [frame, frame],
            "a dict": {"frame": frame},
        }.get(kind, frame),
        file,
    )
    content = file.getvalue()
    return content[: len(content) // 2] if kind == "half a frame" else content


KINDS = ("a frame", "a program", "a program in a list", "a program in a dict", "a plain pickle")
NO_FRAMES = ("a number", "a list", "a dict")


def _content(rng: Rng, size: int) -> tuple[str, list[int]]:
    kind = rng.choice(("a frame", *KINDS, *NO_FRAMES, "half a frame"))
    return kind, [rng.randint(0, 255) for _ in range(1 + 3 * size)]


def _drive_unpacked(answer: Any, kind: str, numbers: list[int]) -> Any:
    RAN.clear()
    found = answer(content_of(kind, numbers))
    return {"result": found, "ran": list(RAN)}


def _right_unpacked(kind: str, numbers: list[int]) -> Any:
    frame = torch.tensor([numbers], dtype=torch.uint8) if kind == "a frame" else None
    return {"result": frame, "ran": []}


unpacked = Exercise(
    id="kept_results.unpacked",
    case=_content,
    expected=_right_unpacked,
    drive=_drive_unpacked,
    show=lambda kind, numbers: f"a file's content with {kind}",
    rung="warm-up",
    minutes=4,
    cases=40,
    sizes=4,
    banned=("labkit.*",),
    hints=(
        Hint("The file named a program, and it ran. torch.load(..., weights_only=True) reads data "
             "alone.", when=lambda e: bool(e.value["ran"])),
        Hint("{input}: it is refused with pickle.UnpicklingError. Catch it, and return None.",
             when=lambda e: e.kind == "raised" and "program" in e.input),
        Hint("{input}: torch.load raises RuntimeError when bytes are missing. Catch it, and return "
             "None.", when=lambda e: e.kind == "raised"),
        Hint("It is data, and no frame: return None for whatever is not a tensor.",
             when=lambda e: e.inputs[0] in NO_FRAMES),
        "torch.load reads from a file object: io.BytesIO(content) is one.",
    ),
    must_fail=(
        "loads arbitrary pickles",
        "tries the safe way first, then the other",
        "gives what is no tensor",
        "lets the refusal out",
        "lets half a file out",
        "takes the frame out of a dict",
        "forgets the shape",
    ),
)  # fmt: skip
