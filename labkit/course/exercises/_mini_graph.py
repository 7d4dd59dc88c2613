"""Expressions of numbers for an engine that the reader writes, and the same ones in torch."""

import heapq
import math

import torch

from labkit.course.exercise import Rng, handed_out

Program = list[tuple[str, int, int]]
LONGEST = 8


class Value:
    """A number that was computed: its inputs, each with the slope towards it.

    number  how many values were made before it: inputs have smaller ones
    inputs  [(value, slope), ...]
    """

    def __init__(self, number: int, data: float, inputs: list[tuple["Value", float]]) -> None:
        self.number, self.data, self.inputs = number, data, inputs

    def __repr__(self) -> str:
        return f"Value {self.number}"


def expression(rng: Rng, size: int) -> tuple[Program, float]:
    """Steps over earlier results; some results are used several times, some never."""
    program: Program = []
    for n in range(1, 2 + 2 * size):
        kind = rng.choice(("add", "mul", "sin"))
        program.append((kind, n - 1 if rng.chance(0.7) else rng.randrange(n), rng.randrange(n)))
    return program, rng.randint(1, 8) / 8


def chain(rng: Rng, size: int) -> tuple[Program, float]:
    """A long one: every step uses the one before, twice."""
    return [("half", n, n) for n in range(5_000)], rng.randint(1, 8) / 8


def any_expression(rng: Rng, size: int) -> tuple[Program, float]:
    """The smallest is a number alone, the next has a gradient of 0; the largest are long."""
    if size < 2:
        return ([("mul", 0, 0)], 0.0) if size else ([], 0.5)
    return chain(rng, size) if size == LONGEST else expression(rng, size)


def describe(program: Program, start: float) -> str:
    """The first steps, as one would write them."""
    signs = {"add": "+", "mul": "*"}
    lines = [
        f"v{n} = v{a} {signs[kind]} v{b}" if kind in signs else
        f"v{n} = sin(v{a})" if kind == "sin" else f"v{n} = v{a} / 2 + v{b} / 2"
        for n, (kind, a, b) in enumerate(program, 1)
    ]  # fmt: skip
    more = f"; ... up to v{len(program)}" if len(lines) > 8 else ""
    return f"v0 = {start}; " + "; ".join(lines[:8]) + more


@handed_out
def built(program: Program, start: float) -> Value:
    """The last value of the expression."""
    made = [Value(0, start, [])]
    for n, (kind, a, b) in enumerate(program, 1):
        x, y = made[a], made[b]
        if kind == "sin":
            made.append(Value(n, math.sin(x.data), [(x, math.cos(x.data))]))
        elif kind == "mul":
            made.append(Value(n, x.data * y.data, [(x, y.data), (y, x.data)]))
        else:
            part = 0.5 if kind == "half" else 1.0
            made.append(Value(n, part * (x.data + y.data), [(x, part), (y, part)]))
    return made[-1]


@handed_out
def edges(root: Value) -> list[tuple[int, list[tuple[int, float]]]]:
    """Every value that is reached from here, with the numbers of its inputs and the slopes."""
    found, waiting = {root.number: root}, [root]
    while waiting:
        for other, _ in waiting.pop().inputs:
            if other.number not in found:
                found[other.number] = other
                waiting.append(other)
    return [
        (number, [(other.number, slope) for other, slope in value.inputs])
        for number, value in sorted(found.items())
    ]


@handed_out
def finished_engine(root: Value) -> tuple[list[int], dict[int, float]]:
    """The numbers in the order in which they ran, and the gradient of each."""
    gradients, order = {root.number: 1.0}, []
    waiting, known = [(-root.number, root)], {root.number}
    while waiting:
        _, value = heapq.heappop(waiting)
        order.append(value.number)
        for other, slope in value.inputs:
            part = gradients[value.number] * slope
            gradients[other.number] = gradients.get(other.number, 0.0) + part
            if other.number not in known:
                known.add(other.number)
                heapq.heappush(waiting, (-other.number, other))
    return order, gradients


def in_torch(program: Program, start: float) -> tuple[list[int], dict[int, float]]:
    """The numbers that are reached from the last, highest first, and torch's gradients of them."""
    made = [torch.tensor(start, dtype=torch.float64, requires_grad=True)]
    below: list[set[int]] = [{0}]
    for kind, a, b in program:
        x, y = made[a], made[b]
        made.append(
            x.sin() if kind == "sin" else x * y if kind == "mul" else
            x + y if kind == "add" else x / 2 + y / 2
        )  # fmt: skip
        made[-1].retain_grad()
        below.append({a} if kind == "sin" else {a, b})
    made[-1].backward()
    reached, todo = set[int](), [len(program)]
    while todo:
        number = todo.pop()
        if number not in reached:
            reached.add(number)
            todo += below[number] if number else []
    order = sorted(reached, reverse=True)
    return order, {n: float(made[n].grad) for n in order}
