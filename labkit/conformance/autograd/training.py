"""Random modules trained by both sides from the same weights on the same batches.

Source   torch/nn, torch/optim
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import labkit as lab
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally

MODELS = {"small": 4, "full": 200}
STEPS = 20
TOLERANCE = 1e-9
"""Relative difference of the losses, in float64: sums in another order, grown by 20 steps."""


def multilayer_perceptron(m: Any, rng: random.Random) -> tuple[Any, tuple[int, ...]]:
    """A module of random widths and activations, and the shape of one example."""
    widths = [rng.randint(2, 12) for _ in range(rng.randint(2, 4))]
    layers: list[Any] = []
    for before, after in itertools.pairwise(widths):
        layers.append(m.nn.Linear(before, after, bias=rng.random() < 0.8))
        activation = rng.choice(["ReLU", "Tanh", "Sigmoid", "GELU", "SiLU"])
        layers.append(getattr(m.nn, activation)())
        if rng.random() < 0.3:
            layers.append(m.nn.LayerNorm(after))
        if rng.random() < 0.3:
            layers.append(m.nn.BatchNorm1d(after))
    return m.nn.Sequential(*layers, m.nn.Linear(widths[-1], 4)), (widths[0],)


def convolutional(m: Any, rng: random.Random) -> tuple[Any, tuple[int, ...]]:
    """A small convolutional classifier, and the shape of one image."""
    channels, width = rng.randint(1, 3), rng.choice([2, 4])
    kernel, stride = rng.choice([2, 3]), rng.choice([1, 2])
    layers = [
        m.nn.Conv2d(channels, width, kernel, stride=stride, padding=rng.randrange(2)),
        m.nn.BatchNorm2d(width),
        m.nn.ReLU(inplace=rng.random() < 0.5),
        rng.choice([m.nn.MaxPool2d, m.nn.AvgPool2d])(2),
        m.nn.Conv2d(width, 4, 2, groups=rng.choice([1, 2]), padding=1),
        m.nn.AdaptiveAvgPool2d(1),
        m.nn.Flatten(),
        m.nn.Linear(4, 4),
    ]
    return m.nn.Sequential(*layers), (channels, 9, 8)


def optimizer(m: Any, rng: random.Random, parameters: Any) -> Any:
    """One of three, with random options."""
    kind = rng.choice(["SGD", "Adam", "AdamW"])
    decay = rng.choice([0.0, 0.01])
    if kind == "SGD":
        momentum = rng.choice([0.0, 0.9])
        nesterov = momentum > 0 and rng.random() < 0.5
        return m.optim.SGD(
            parameters, lr=0.05, momentum=momentum, weight_decay=decay, nesterov=nesterov
        )
    return getattr(m.optim, kind)(
        parameters, lr=0.01, weight_decay=decay, amsgrad=rng.random() < 0.3
    )


def losses(m: Any, name: str, weights: Any, data: Any) -> tuple[list[float], Any]:
    """The loss of every step; and the weights before the first.

    weights   None to keep the first weights that the seed draws
    """
    rng = random.Random(name)
    make = rng.choice([multilayer_perceptron, convolutional])
    m.manual_seed(rng.randrange(1 << 30))
    model, shape = make(m, rng)
    model = model.double()
    if weights is not None:
        model.load_state_dict(weights)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    step = optimizer(m, rng, model.parameters())
    found = []
    for x, y in data(shape):
        step.zero_grad()
        loss = m.nn.functional.cross_entropy(model(m.tensor(x)), m.tensor(y))
        loss.backward()
        step.step()
        found.append(loss.item())
    return found, start


def batches(name: str) -> Any:
    """Shape of one example -> the batches of all steps, as NumPy arrays."""

    def made(shape: tuple[int, ...]) -> list[tuple[Any, Any]]:
        rng = np.random.default_rng(list(name.encode()))
        return [(rng.normal(size=(8, *shape)), rng.integers(0, 4, 8)) for _ in range(STEPS)]

    return made


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Models made from the seed, trained for `STEPS` steps."""
    tally = Tally(f"losses of models trained {STEPS} steps")
    for number in range(MODELS[size]):
        name = f"training {seed} {number}"
        theirs, weights = losses(torch, name, None, batches(name))
        ours, _ = losses(lab, name, weights, batches(name))
        close = np.allclose(theirs, ours, rtol=TOLERANCE, atol=TOLERANCE)
        said = f"  {name}\n  torch losses {theirs}\n  labkit losses {ours}"
        tally.note("" if close else said)
    yield tally.result()
