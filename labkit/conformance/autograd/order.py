"""The order in which backward runs the nodes of random graphs.

Source   torch/csrc/autograd/engine.cpp  ReadyQueue, CompareNodeTaskTime
"""

import random
from collections.abc import Iterator
from typing import Any

import torch

import labkit as lab
from labkit.conformance.autograd import graphs
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally

GRAPHS = {"small": 150, "full": 17_000}


def build(m: Any, rng: random.Random) -> tuple[list[Any], list[Any]]:
    """A random graph: its leaves, and one to three roots."""
    leaves = [m.ones(2, dtype=m.float64).requires_grad_() for _ in range(rng.randint(1, 5))]
    values = list(leaves)
    for _ in range(rng.randint(1, 16)):
        kind = rng.randrange(5)
        chosen = [rng.choice(values) for _ in range(rng.randint(1, 5))]
        if kind == 0:
            values.append(-chosen[0])
        elif kind == 1:
            values.append(chosen[0] + chosen[-1])
        elif kind == 2:
            values.append(chosen[0] * chosen[-1])
        elif kind == 3:
            values.append(m.stack(chosen).sum(0))
        else:
            values += [part.expand(2) for part in (chosen[0] * 2).unbind(0)]
    recent = values[-rng.randint(1, 6) :]
    return leaves, rng.sample(recent, min(len(recent), rng.randint(1, 3)))


def order(m: Any, rng: random.Random) -> tuple[Any, list[int]]:
    """The graph, and the rows of it in the order in which backward runs them."""
    leaves, roots = build(m, rng)
    found = graphs.nodes(roots)
    ran: list[int] = []
    for number, node in enumerate(found):
        node.register_prehook(lambda grads, number=number: ran.append(number))
    m.autograd.backward(roots, [m.ones(2, dtype=m.float64) for _ in roots])
    return graphs.graph(roots, leaves), ran


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Graphs made from the seed: every node, accumulators of leaves included."""
    tally, nodes = Tally(""), 0
    for number in range(GRAPHS[size]):
        name = f"autograd graph {seed} {number}"
        theirs, ours = order(torch, random.Random(name)), order(lab, random.Random(name))
        nodes += len(theirs[1])
        found = graphs.difference(theirs[0], ours[0])
        if not found and theirs[1] != ours[1]:
            found = f"torch runs {theirs[1]}, labkit {ours[1]} of {theirs[0][0]}"
        tally.note(found and f"  graph {seed}:{number}\n  {found}")
    tally.what = f"execution order of random graphs ({nodes:,} nodes)"
    yield tally.result()
