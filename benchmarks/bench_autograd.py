"""What recording and running backward cost per node, beside PyTorch; 64x64 float32, one thread.

labkit bench autograd
"""

from collections.abc import Iterator

import torch

import labkit as lab
from labkit.bench import Bench

NODES = 1_000
SHAPE = (64, 64)


def leaf(m):
    return m.ones(*SHAPE).requires_grad_()


def chain(m, x, factor, nodes=NODES):
    y = x
    for _ in range(nodes):
        y = y * factor
    return y


def forward(m):
    """Record a chain of multiplications; the graph dies with the call."""
    x, factor = leaf(m), m.ones(*SHAPE)
    return lambda: chain(m, x, factor)


def backward(m):
    """Run a recorded chain backward, keeping it for the next call."""
    x, factor = leaf(m), m.ones(*SHAPE)
    y, grad = chain(m, x, factor), m.ones(*SHAPE)

    def body():
        x.grad = None
        y.backward(grad, retain_graph=True)

    return body


def whole(m, nodes, times=1):
    """Record, run backward and free, `times` times."""
    factor = m.ones(*SHAPE)
    grad = m.ones(*SHAPE)

    def body():
        for _ in range(times):
            chain(m, leaf(m), factor, nodes).backward(grad)

    return body


def small(m, nodes, times=1):
    """The same on one element: the engine alone."""
    factor, grad = m.ones(1), m.ones(1)

    def body():
        for _ in range(times):
            chain(m, m.ones(1).requires_grad_(), factor, nodes).backward(grad)

    return body


def BENCHES() -> Iterator[Bench]:
    torch.set_num_threads(1)
    yield Bench(
        "forward per node, x * b recorded, 64x64, beside torch (goal: within 3 times)",
        forward(lab), forward(torch), goal=3.0, calls=1, clock="cpu", work=NODES,
    )  # fmt: skip
    yield Bench(
        "backward per node, 64x64, beside torch (goal: within 2.5 times)",
        backward(lab), backward(torch), goal=2.5, calls=1, clock="cpu", work=NODES,
    )  # fmt: skip
    yield Bench(
        "record, run backward and free per node, 64x64, beside torch",
        whole(lab, NODES), whole(torch, NODES), calls=1, clock="cpu", work=NODES,
    )  # fmt: skip
    yield Bench(
        "a node of a chain of 100,000 beside one of 1,000, one element (goal: 1.3)",
        small(lab, 100_000), small(lab, 1_000, 100), goal=1.3, calls=1, clock="cpu", work=100_000,
    )  # fmt: skip
