"""The small steps of the engine chapter: a formula, and how many gradients a node waits for."""

import math
from collections import Counter
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT


def _a_slope(rng: Rng, size: int) -> tuple[float, float]:
    return rng.randint(-40, 40) / 8, rng.choice((1.0, -2.0, rng.randint(1, 16) / 4))


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
        "The slope of sin at x is cos(x).",
        "What arrived, g, is multiplied by the slope.",
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
