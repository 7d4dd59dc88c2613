"""The installed package: what is large, what loads what, and where a function lives."""

import functools
import importlib
import inspect
import types
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from labkit.course import libraries
from labkit.course.exercise import (
    Case,
    Evidence,
    Exercise,
    Hint,
    Raised,
    Rng,
    Stage,
    Wrong,
    handed_out,
)
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES
from labkit.course.exercises._never_right import CATCHES, CONSTANT, FIRST, READS, TOO_SLOW

NOTEBOOK = "2_core_code/1_release_package"


# --- by_folder


def _some_files(rng: Rng, size: int) -> tuple[list[tuple[str, int]]]:
    folders = [f"{top}/{name}" for top in ("torch", "torchgen") for name in ("lib", "nn", "lib2")]
    files = []
    for number in range(3 * size):
        deeper = "/deep" * rng.randint(0, 2)
        files.append((f"{rng.choice(folders)}{deeper}/file{number}", rng.randint(0, 900)))
    return (files,)


def _sums(files: list[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for path, size in files:
        folder = "/".join(path.split("/")[:2])
        found[folder] = found.get(folder, 0) + size
    return found


by_folder = Exercise(
    id="release_package.by_folder",
    rung="warm-up",
    case=_some_files,
    expected=_sums,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=50,
    minutes=3,
    hints=(
        Hint(
            "A folder is missing, or one is there that should not be: the first two parts of the "
            "path are its folder, however deep the file lies.",
            when=lambda e: e.value.keys() != e.right.keys(),
        ),
        Hint("A sum is wrong. Do you add, or keep the last one?", when=lambda e: True),
        "path.split('/')[:2] are the two parts.",
    ),
    must_fail=(
        "keeps the last file alone",
        "counts files",
        "takes the first part alone",
        "takes every folder apart",
    ),
)


# --- direct


def _graph(rng: Rng, size: int) -> dict[str, list[str]]:
    """Who needs whom, without a cycle: each needs some of those before it."""
    names = [f"lib{letter}" for letter in "abcdefghijklmnop"[: 2 + size]]
    rng.shuffle(names)
    return {
        name: [other for other in names[:at] if rng.chance(0.4)] for at, name in enumerate(names)
    }


def _reached(needs: dict[str, list[str]], name: str) -> set[str]:
    """All that comes along, without the library itself."""
    found: set[str] = set()
    for other in needs[name]:
        found |= {other} | _reached(needs, other)
    return found


def _what_came(rng: Rng, size: int) -> tuple[str, dict[str, list[str]]]:
    needs = _graph(rng, size)
    brought = {name: sorted(_reached(needs, name)) for name in needs}
    return rng.choice(sorted(needs)), brought


def _direct(name: str, brought: dict[str, list[str]]) -> list[str]:
    later = {far for other in brought[name] for far in brought[other]}
    return sorted(set(brought[name]) - later)


direct = Exercise(
    id="release_package.direct",
    rung="warm-up",
    case=_what_came,
    expected=_direct,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=60,
    minutes=4,
    hints=(
        Hint(
            "Yours names more than {expected}. One of them is brought by another one.",
            when=lambda e: set(e.value) > set(e.right),
        ),
        Hint("Return a sorted list.", when=lambda e: set(e.value) == set(e.right)),
        "Collect all that the brought ones bring, and take those off.",
    ),
    must_fail=(
        "returns all that came along",
        "looks at the first one alone",
        "returns the ends, which bring nothing",
    ),
)


# --- load_order


def _some_needs(rng: Rng, size: int) -> tuple[str, dict[str, list[str]]]:
    needs = _graph(rng, size)
    return max(needs, key=lambda name: len(_reached(needs, name))), needs


def _chain(rng: Rng, size: int) -> tuple[str, dict[str, list[str]]]:
    names = [f"lib{number}" for number in range(2 + size)]
    rng.shuffle(names)
    return names[0], {name: names[at + 1 : at + 2] for at, name in enumerate(names)}


def _missing(rng: Rng, size: int) -> tuple[str, dict[str, list[str]]]:
    start, needs = _some_needs(rng, size)
    needs[rng.choice([start, *sorted(_reached(needs, start))])].append("libgone")
    return start, needs


def _cycle(rng: Rng, size: int) -> tuple[str, dict[str, list[str]]]:
    start, needs = _chain(rng, 1 + size)
    last = next(name for name, others in needs.items() if not others)
    needs[last].append(rng.choice([name for name in needs if name != last]))
    return start, needs


def _floors(rng: Rng, size: int) -> tuple[str, dict[str, list[str]]]:
    """Two libraries on each floor, and each needs both of the next: 2 ** floors ways lead down."""
    names = [f"lib{number}" for number in range(1 + 6 * size)]
    rng.shuffle(names)
    floors = [names[:1], *(names[at : at + 2] for at in range(1, len(names), 2)), []]
    return names[0], {one: list(below) for floor, below in pairwise(floors) for one in floor}


def _graph_or_floors(rng: Rng, size: int) -> tuple[str, dict[str, list[str]]]:
    return rng.choice((_some_needs, _floors))(rng, size)


def _any_needs(rng: Rng, size: int) -> tuple[str, dict[str, list[str]]]:
    return rng.choice((_some_needs, _floors, _chain, _missing, _cycle))(rng, size)


def _component(needs: dict[str, list[str]], name: str) -> set[str]:
    """All that can be reached from here, cycles included; not what is missing."""
    found, waiting = set(), [name]
    while waiting:
        one = waiting.pop()
        if one in needs and one not in found:
            found.add(one)
            waiting += needs[one]
    return found


def _has_circle(needs: dict[str, list[str]]) -> bool:
    return any(one in _component(needs, other) for one in needs for other in needs[one])


def _judge_order(case: Case, got: Any) -> Any:
    start, needs = case.inputs
    all_of_it = _component(needs, start)
    gone = any("libgone" in needs[name] for name in all_of_it)
    if gone:
        right = isinstance(got, Raised) and isinstance(got.error, FileNotFoundError)
        said = right and "libgone" in str(got.error)
        return None if said else Wrong("FileNotFoundError that names libgone is raised")
    if not isinstance(got, list) or sorted(map(str, got)) != sorted(all_of_it):
        return Wrong("every library that comes along is named once", sorted(all_of_it))
    for name in got:
        for other in needs[name]:
            in_circle = name in _component(needs, other)
            if not in_circle and got.index(other) > got.index(name):
                return Wrong(f"{other} stands before {name}, which needs it")
    return None


def _drawn_needs(case: Case, got: Any, _right: Any) -> Any:
    """The graph, with the place of each library in the answer over it."""
    from labkit.widgets.graph.graph_view import GraphView

    _, needs = case.inputs
    names = sorted({*needs, *(other for others in needs.values() for other in others)})
    edges = [
        {"source": names.index(name), "target": names.index(other)}
        for name, others in needs.items()
        for other in others
    ]
    places = got if isinstance(got, list) else []
    notes = {names.index(n): str(at + 1) for at, n in enumerate(places) if n in names}
    frames = [{"text": "the order of your answer", "notes": notes}]
    return GraphView([{"label": name} for name in names], edges, frames, simple=True)


load_order = Exercise(
    id="release_package.load_order",
    rung="core",
    case=_any_needs,
    judge=_judge_order,
    picture=_drawn_needs,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    cases=120,
    minutes=12,
    stages=(
        Stage("chain", case=_chain, cases=20),
        Stage("graph", case=_graph_or_floors, cases=40),
        Stage("missing", case=_missing, cases=20),
        Stage("circle"),
    ),
    hints=(
        Hint(
            "Several ways lead to one library here, and yours goes through all of them: with each "
            "floor twice as many. Note a library as seen, and load it once.",
            when=lambda e: e.kind == "time" and not _has_circle(e.inputs[1]),
        ),
        Hint(
            "Yours does not come to an end where two libraries need each other. Note a library as "
            "seen before you look at what it needs.",
            when=lambda e: "Recursion" in e.got or e.kind == "time",
        ),
        Hint(
            "A library that nobody has must be named: raise FileNotFoundError(name).",
            when=lambda e: "libgone" in e.property,
        ),
        Hint(
            "A library stands before one that it needs: add its own name after those of all that "
            "it needs.",
            when=lambda e: "before" in e.property,
        ),
        "A function that calls itself: first for everything a library needs, then append its name.",
    ),
    must_fail=(
        "sorts by name",
        "starts with the library itself",
        "ignores what is needed by what is needed",
        "loops for ever on a circle",
        "names a library twice",
        "leaves out what is missing",
        TOO_SLOW,
        CONSTANT,
        FIRST,
    ),
)


# --- where


SPACES = (
    "torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.Tensor", "torch.optim.SGD",
    "torch.optim.Adam", "math", "zlib", "binascii", "time",
)  # fmt: skip


@handed_out
def look_up(name: str) -> Any:
    """What a dotted name like "torch.Tensor.add" stands for."""
    first, *others = name.split(".")
    return functools.reduce(getattr, others, importlib.import_module(first))


@functools.cache
def _public() -> dict[str, list[str]]:
    """Public functions, by how they are made; "other" are compiled and not torch's."""
    found: dict[str, list[str]] = {"compiled": [], "other": [], "python": [], "wrapped": []}
    for space in SPACES:
        for name, value in sorted(vars(look_up(space)).items()):
            if name.startswith("_"):
                continue
            if isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType):
                ours = space.startswith("torch")
                found["compiled" if ours else "other"].append(f"{space}.{name}")
            elif isinstance(value, types.FunctionType):
                other = _file(value) != _file(inspect.unwrap(value))
                found["wrapped" if other else "python"].append(f"{space}.{name}")
    return found


def _file(function: Any) -> str:
    return "/".join(Path(function.__code__.co_filename).parts[-2:])


def _of_kind(*kinds: str) -> Callable[[Rng, int], tuple[str]]:
    def make(rng: Rng, size: int) -> tuple[str]:
        return (rng.choice(_public()[rng.choice(kinds)]),)

    return make


def _lives(name: str) -> tuple[str, str]:
    found = look_up(name)
    if isinstance(found, types.FunctionType):
        return "python", _file(inspect.unwrap(found))
    return "compiled", libraries.short(libraries.holder_of(libraries.address_of(found)))


def _kind_of(evidence: Evidence) -> str:
    name = evidence.inputs[0]
    return next(kind for kind, names in _public().items() if name in names)


where = Exercise(
    id="release_package.where",
    rung="core",
    case=_of_kind("compiled", "other", "python", "wrapped"),
    expected=_lives,
    cases=150,
    minutes=14,
    stages=(
        Stage("compiled", case=_of_kind("compiled", "other"), cases=40),
        Stage("python", case=_of_kind("python"), cases=40),
        Stage("wrapped", case=_of_kind("wrapped"), cases=20),
        Stage("together"),
    ),
    hints=(
        Hint(
            "A decorator stands around this one. inspect.unwrap(function) is the function inside.",
            when=lambda e: _kind_of(e) == "wrapped",
        ),
        Hint(
            "This one has no Python code: hasattr(function, '__code__') is False. Ask home().",
            when=lambda e: _kind_of(e) in ("compiled", "other"),
        ),
        Hint(
            "The file is that of function.__code__.co_filename. A name may be an alias: what the "
            "name looks like says nothing.",
            when=lambda e: _kind_of(e) == "python",
        ),
        "look_up(name) is the function. Does it have a __code__?",
    ),
    must_fail=(
        "guesses from the name",
        "says that all that is compiled is in torch_cpu",
        "says that all that is compiled is in torch_python",
        "says that everything is compiled",
        "follows no wrapper",
        "asks for the module it says it is in",
        "takes the file of the module that the name begins with",
        CATCHES,
        FIRST,
        READS,
    ),
)

EXERCISES = (by_folder, direct, load_order, where)
