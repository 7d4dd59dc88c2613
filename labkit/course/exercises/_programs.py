"""Programs of tensors for `graph_or_no_graph`: made, run, written out and drawn."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from labkit.course.exercise import Case, Evidence, Raises, Rng

Line = tuple[Any, ...]
Program = tuple[Line, ...]

FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "uint8", "bool")
ONE_INPUT = ("exp", "sum", "detach", "argmax")
TWO_INPUTS = ("add", "mul", "gt")


def a_program(rng: Rng, size: int, *left_out: str, refused: float = 0.02) -> tuple[Program]:
    """Leaves and operations of all kinds but some, in and out of blocks that may be nested.

    refused  how probable it is that a leaf without a floating-point dtype asks
    """
    lines: list[Line] = []
    dtypes: dict[str, str] = {}
    depth = 0

    def leaf() -> None:
        name = "abcdefghijklmnopqrstuvwxyz"[len(dtypes)]
        dtypes[name] = rng.choice(FLOATS if rng.chance(0.7) else INTEGERS)
        asks = rng.chance(0.75) and dtypes[name] in FLOATS
        asks = asks or rng.chance(refused + 0.04 * (size == 0))
        lines.append(("leaf", name, dtypes[name], asks))

    leaf()
    for _ in range(1 + size):
        if rng.chance(0.3 if depth else 0.2):
            leaf()
        if "enter" not in left_out and rng.chance(0.3):
            if depth and rng.chance(0.5):
                lines.append(("exit",))
                depth -= 1
            else:
                opened = rng.choice((1, 1, 2))
                lines += [("enter", "no_grad")] * opened
                depth += opened
        lines.append(_an_operation(rng, dtypes, left_out))
    return ((*lines, *[("exit",)] * depth),)


def _an_operation(rng: Rng, dtypes: dict[str, str], left_out: tuple[str, ...]) -> Line:
    """A line that computes a new name, mostly from recent ones; it keeps `dtypes` up to date."""
    names = list(dtypes)
    pick: Callable[[], str] = lambda: rng.choice(names[-3:] if rng.chance(0.7) else names)  # noqa: E731
    result = "abcdefghijklmnopqrstuvwxyz"[len(names)]
    first = pick()
    kind = rng.choice([kind for kind in ("one", "two", "two", "to") if kind not in left_out])
    if kind == "to":
        same = rng.chance(0.25)
        dtype = dtypes[first] if same else rng.choice(FLOATS if rng.chance(0.5) else INTEGERS)
        line: Line = ("to", result, first, dtype)
    elif kind == "two":
        line = (rng.choice(TWO_INPUTS), result, first, pick())
    else:
        name = rng.choice([name for name in ONE_INPUT if name not in left_out])
        line = ("sum" if name == "argmax" and dtypes[first] == "bool" else name, result, first)
    stand_ins = {name: torch.ones(3, dtype=getattr(torch, dtypes[name])) for name in names}
    dtypes[result] = str(_do(line, stand_ins).dtype).removeprefix("torch.")
    return line


def _do(line: Line, values: dict[str, torch.Tensor]) -> torch.Tensor:
    name, _, first, *rest = line
    if name == "leaf":
        dtype: torch.dtype = getattr(torch, first)
        return torch.ones(3, dtype=dtype, requires_grad=rest[0])
    if name == "to":
        return values[first].to(getattr(torch, rest[0]))
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    return function(values[first], *[values[other] for other in rest])


def recorded(program: Program) -> list[bool] | Raises:
    """Run the program; of every name, whether it has a grad_fn when it is made."""
    values: dict[str, torch.Tensor] = {}
    blocks = 0
    found: list[bool] = []
    for line in program:
        if line[0] in ("enter", "exit"):
            blocks += 1 if line[0] == "enter" else -1
        else:
            with torch.set_grad_enabled(blocks == 0):
                try:
                    values[line[1]] = _do(line, values)
                except RuntimeError:
                    return Raises(RuntimeError)
            found.append(values[line[1]].grad_fn is not None)
    return found


def shorter_programs(program: Program) -> Iterator[tuple[Program]]:
    for at, line in enumerate(program):
        rest = program[:at] + program[at + 1 :]
        if line[0] == "enter":
            depth = 0
            for place in range(at, len(program)):
                depth += {"enter": 1, "exit": -1}.get(program[place][0], 0)
                if depth == 0:
                    yield (program[:at] + program[at + 1 : place] + program[place + 1 :],)
                    break
        elif line[0] != "exit" and not any(line[1] in _read_by(later) for later in rest[at:]):
            yield (rest,)


def _read_by(line: Line) -> tuple[str, ...]:
    """The names a line reads."""
    if line[0] in ("leaf", "enter", "exit"):
        return ()
    return line[2:3] if line[0] == "to" else line[2:]


def as_source(program: Program) -> str:
    words = []
    for line in program:
        name = line[0]
        if name == "enter":
            words.append(f"with {line[1]}(): [")
        elif name == "exit":
            words.append("]")
        elif name == "leaf":
            words.append(f"{line[1]} = ones(3, {line[2]}, requires_grad={line[3]})")
        else:
            words.append(f"{line[1]} = {name}({', '.join(line[2:])})")
    return " ; ".join(words)


def _wrong_line(evidence: Evidence) -> Line:
    """The first line whose answer is wrong, () when that cannot be told."""
    named = [line for line in evidence.inputs[0] if line[0] not in ("enter", "exit")]
    if isinstance(evidence.value, (list, tuple)) and isinstance(evidence.right, list):
        for line, ours, right in zip(named, evidence.value, evidence.right, strict=False):
            if ours != right:
                return tuple(line)
    return ()


def wrong_at(*names: str) -> Callable[[Evidence], bool]:
    return lambda evidence: _wrong_line(evidence)[:1] in [(name,) for name in names]


def only_leaves(rng: Rng, size: int) -> tuple[Program]:
    """Float leaves, nothing computed."""
    names = "abc"[: rng.randint(1, 3)]
    return (tuple(("leaf", name, rng.choice(FLOATS), rng.chance(0.5)) for name in names),)


def only_products(rng: Rng, size: int) -> tuple[Program]:
    """Products and sums of float32 leaves."""
    (leaves,) = only_leaves(rng, size)
    lines: list[Line] = [("leaf", name, "float32", asks) for _, name, _, asks in leaves]
    for name in "uvwxyz"[: 1 + size // 2]:
        known = [line[1] for line in lines]
        lines.append((rng.choice(("mul", "add")), name, rng.choice(known), rng.choice(known)))
    return (tuple(lines),)


def refused_or_not(rng: Rng, size: int) -> tuple[Program]:
    """Operations in all dtypes, no cast; some of the leaves that are no floats ask."""
    return a_program(rng, size, "to", "detach", "enter", refused=0.2)


def drawn(case: Case, got: Any, right: Any) -> Any:
    """The program as a graph: what each name is made of, and the first one that is wrong."""
    from labkit.widgets.graph.graph_view import GraphView  # drawing is for a failing case alone

    named = [line for line in case.inputs[0] if line[0] not in ("enter", "exit")]
    places = {line[1]: place for place, line in enumerate(named)}
    words = {True: "a graph", False: "nothing"}
    nodes = [
        {"label": f"{line[1]} = {line[0]}", "kind": line[0], "badges": [_dtype(line)]}
        for line in named
    ]
    edges = [
        {"source": places[name], "target": places[line[1]]}
        for line in named
        for name in _read_by(line)
    ]
    title = "the program, from the leaves on"
    if isinstance(right, Raises) or not isinstance(got, list) or len(got) != len(right):
        return GraphView(nodes, edges, title=title)
    wrong = next(at for at, pair in enumerate(zip(got, right, strict=True)) if pair[0] != pair[1])
    said = f"{named[wrong][1]}: yours {words[bool(got[wrong])]}, right {words[right[wrong]]}"
    frame = {"text": said, "marks": {wrong: "error"}}
    return GraphView(nodes, edges, frames=[frame], title=title)


def _dtype(line: Line) -> str:
    """The dtype that a line names, "" where it names none."""
    return str(line[2 if line[0] == "leaf" else -1]) if line[0] in ("leaf", "to") else ""
