"""The steps of the engine chapter: a formula, how many gradients come, where each of them goes."""

import heapq
import math
from collections import Counter
from typing import Any

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT


def _a_slope(rng: Rng, size: int) -> tuple[float, float]:
    return rng.randint(-40, 40) / 8, rng.choice((1.0, -2.0, rng.randint(1, 16) / 4))


def _the_slope_alone(evidence: Evidence) -> bool:
    return bool(evidence.value == [math.cos(evidence.inputs[0])])


formula = Exercise(
    id="autograd.formula",
    case=_a_slope,
    expected=lambda x, g: [g * math.cos(x)],
    rung="warm-up",
    tolerance=1e-9,
    cases=60,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "An engine asks for one gradient per edge, so the answer is a list, with one number.",
            when=lambda evidence: not isinstance(evidence.value, list),
        ),
        Hint("What arrived, g, is multiplied by the slope.", when=_the_slope_alone),
        "The slope of sin at x is cos(x).",
    ),
    must_fail=(
        "returns the slope and forgets what arrived",
        "takes sin for its own slope",
        "has the sign of the slope of cos",
        "returns a number, not a list",
    ),
)


class Step:
    """A node of a graph, with nothing but its edges."""

    def __init__(self, name: str, edges: list["Step | None"]) -> None:
        self.name, self.edges = name, edges

    def __repr__(self) -> str:
        return self.name


def _a_graph(rng: Rng, size: int) -> tuple[list[Step]]:
    """Nodes in a random order; each leads to some made before it, perhaps twice, or to None."""
    nodes: list[Step] = []
    for number in range(size + 1):
        last = nodes[-1:] if number else []
        picked = [rng.choice([*nodes, None]) for _ in range(rng.randint(0, 2))] if nodes else []
        nodes.append(Step(f"n{number}", [*last, *picked]))
    rng.shuffle(nodes)
    return (nodes,)


def _by_name(answer: Any, nodes: list[Step]) -> dict[str, int]:
    """What came back, by the names of the nodes; a node that nobody leads to may be left out."""
    counted = dict(answer(nodes))
    return {("None" if node is None else node.name): n for node, n in counted.items() if n}


def _counted(nodes: list[Step]) -> dict[str, int]:
    return dict(Counter(after.name for node in nodes for after in node.edges if after is not None))


def _edges(nodes: list[Step]) -> str:
    return "; ".join(f"{node} -> {node.edges}" for node in nodes)


waits = Exercise(
    id="autograd.waits",
    case=lambda rng, size: Case(_a_graph(rng, size)),
    expected=_counted,
    drive=_by_name,
    show=_edges,
    rung="warm-up",
    cases=60,
    minutes=4,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "None is no node: that input wants no gradient, and nobody waits there.",
            when=lambda evidence: "None" in (evidence.value or {}),
        ),
        Hint(
            "Two edges of one node may lead to the same next node, as in z + z. Each of them "
            "brings a gradient of its own.",
            when=lambda evidence: set(evidence.value) == set(evidence.right),
        ),
        "Go through the nodes, and through the edges of each: every edge adds one to the node it "
        "leads to.",
    ),
    must_fail=(
        "counts a node once however many edges lead to it",
        "counts the edges that leave a node",
        "lets somebody wait at None",
        "counts the edges of the first node alone",
    ),
)


# --- send


class Waiting:
    """A node of a graph that gradients are sent to: its number says when it was made."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def __repr__(self) -> str:
        return self.name


def _sent(rng: Rng, size: int) -> tuple[dict[str, int], list[tuple[str, float]]]:
    """The number of each node, and (node, gradient) in the order of sending; not all have all."""
    names = [f"n{at}" for at in range(1 + size // 2)]
    numbers = dict(zip(names, rng.sample(range(40), len(names)), strict=True))
    sends = [(name, rng.randint(-8, 8) / 4) for name in names for _ in range(rng.randint(1, 3))]
    rng.shuffle(sends)
    return numbers, sends


def _sent_once(rng: Rng, size: int) -> tuple[dict[str, int], list[tuple[str, float]]]:
    numbers, sends = _sent(rng, size)
    return numbers, list(dict(sends).items())


def _drive_send(
    answer: Any, numbers: dict[str, int], sends: list[tuple[str, float]]
) -> dict[str, Any]:
    """What is in the buffers, who still waits, and who leaves the heap, in order."""
    nodes = {name: Waiting(name, number) for name, number in numbers.items()}
    waiting = Counter(nodes[name] for name, _ in sends)
    waiting[nodes[sends[-1][0]]] += len(sends) > 1  # its last gradient has not come yet
    buffers: dict[Waiting, float] = {}
    ready: list[tuple[int, Waiting]] = []
    for name, grad in sends:
        answer(nodes[name], grad, buffers, waiting, ready)
    left = [heapq.heappop(ready) for _ in range(len(ready))]
    return {
        "buffers": {node.name: grad for node, grad in buffers.items()},
        "still waits for": {node.name: count for node, count in waiting.items() if count},
        "leaves ready": [one[1].name if isinstance(one, tuple) else repr(one) for one in left],
    }


def _all_sent(numbers: dict[str, int], sends: list[tuple[str, float]]) -> dict[str, Any]:
    buffers: dict[str, float] = {}
    for name, grad in sends:
        buffers[name] = buffers.get(name, 0.0) + grad
    late = {sends[-1][0]: 1} if len(sends) > 1 else {}
    return {
        "buffers": buffers,
        "still waits for": late,
        "leaves ready": sorted(buffers.keys() - late, key=lambda name: -numbers[name]),
    }


def _in_words(numbers: dict[str, int], sends: list[tuple[str, float]]) -> str:
    sent = ", ".join(f"{grad} to {name}" for name, grad in sends)
    more = f"; {sends[-1][0]} waits for one more" if len(sends) > 1 else ""
    return f"numbers {numbers}; sent {sent}{more}"


def _wrong_in(evidence: Evidence, part: str) -> bool:
    got = evidence.value
    return isinstance(got, dict) and bool(got[part] != evidence.right[part])


send = Exercise(
    id="autograd.send",
    case=_sent,
    expected=_all_sent,
    drive=_drive_send,
    show=_in_words,
    cases=100,
    minutes=6,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    stages=(
        Stage("one gradient each", case=_sent_once, cases=30),
        Stage("several"),
    ),
    hints=(
        Hint(
            "A node is not in buffers before its first gradient: buffers.get(after, 0.0).",
            when=lambda e: e.kind == "raised" and "KeyError" in e.got,
        ),
        Hint(
            "heapq compares what is in the heap, and nodes cannot be compared. Push the pair "
            "(-after.number, after).",
            when=lambda e: e.kind == "raised" and "'<' not supported" in e.got,
        ),
        Hint(
            "A gradient got lost. The first one for a node becomes its buffer; each later one is "
            "added to what the buffer holds.",
            when=lambda e: _wrong_in(e, "buffers"),
        ),
        Hint(
            "waiting[after] says how many gradients are still to come. One has come now.",
            when=lambda e: _wrong_in(e, "still waits for"),
        ),
        Hint(
            "The pair is (-after.number, after), with the minus. heapq.heappush(ready, pair), not "
            "append, puts it where it belongs.",
            when=lambda e: (
                isinstance(e.value, dict)
                and sorted(e.value["leaves ready"]) == sorted(e.right["leaves ready"])
            ),
        ),
        "Three steps: add the gradient to the buffer, count down, and push the node where the "
        "count is 0 now.",
    ),
    must_fail=(
        "keeps the last gradient alone",
        "does not count down",
        "lets a node run at its first gradient",
        "lets no node run",
        "appends to the heap",
        "takes the node made first",
        "expects every node in buffers",
        "pushes a node without its number",
    ),
)
