"""The network that the machine trains, twice: in labkit and in PyTorch, from the same numbers.

It is small and meets every seat: convolutions and poolings, a product and a sum with broadcasting,
a view, gradients that are clipped by a hook, a scaled loss, and an SGD step. All numbers are
float32; a scale that is a power of two changes none of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.course.your_machine.digits import digits

BATCH = 32
LEARNING_RATE = 0.2
CLIPPED_AT = 1.0
FIRST_SCALE, GOOD_STEPS = 2.0**10, 8
"""Of the loss, and after how many good steps the scale doubles."""
CHANNELS = (6, 12)
Step = Callable[[int], float]
"""Trains on one batch, given its number; returns the loss."""


def parameters(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """What the network begins with."""
    generator = np.random.default_rng(seed)
    one, two = CHANNELS

    def random(*sizes: int) -> NDArray[np.float32]:
        depth = int(np.prod(sizes[1:]))
        numbers = generator.standard_normal(sizes) * (2 / depth) ** 0.5
        return np.asarray(numbers, np.float32)

    return {
        "conv1": random(one, 1, 3, 3),
        "bias1": np.zeros(one, np.float32),
        "scale": np.ones((1, one, 1, 1), np.float32),
        "shift": np.zeros((one, 1, 1), np.float32),
        "conv2": random(two, one, 3, 3),
        "bias2": np.zeros(two, np.float32),
        "linear": random(10, two * 9),
        "bias3": np.zeros(10, np.float32),
    }


def forward(functional: Any, p: dict[str, Any], images: Any) -> Any:
    """Ten scores per image; `functional` is labkit's or PyTorch's."""
    x = functional.conv2d(images, p["conv1"], p["bias1"], padding=1)
    x = functional.relu(x * p["scale"] + p["shift"])
    x = functional.max_pool2d(x, 2)
    x = functional.relu(functional.conv2d(x, p["conv2"], p["bias2"], padding=1))
    x = functional.max_pool2d(x, 2)
    return functional.linear(x.view(x.shape[0], -1), p["linear"], p["bias3"])


def trainer(
    library: Any, functional: Any, optimizer: Any, scaling: Any, device: str, steps: int
) -> Step:
    """A training step of the network in this library."""
    images, labels = (library.from_numpy(array) for array in digits(BATCH * steps))
    found = {name: library.from_numpy(array).to(device) for name, array in parameters().items()}
    scaler = scaling(device, init_scale=FIRST_SCALE, growth_interval=GOOD_STEPS)
    limit = 0.0

    def clipped(grad: Any) -> Any:
        return grad.clamp(-limit, limit)

    for parameter in found.values():
        parameter.requires_grad_()
        parameter.register_hook(clipped)
    descent = optimizer(list(found.values()), lr=LEARNING_RATE)

    def step(number: int) -> float:
        nonlocal limit
        limit = CLIPPED_AT * scaler.get_scale()  # the gradients that a hook sees are scaled
        part = slice(number * BATCH, (number + 1) * BATCH)
        x, y = images[part].to(device), labels[part].to(device)
        descent.zero_grad()
        scores = forward(functional, found, (x - 0.2) * 2)
        loss = functional.cross_entropy(scores, y)
        scaler.scale(loss).backward()
        scaler.step(descent)
        scaler.update()
        return float(loss.item())

    return step


def labkits(steps: int) -> Step:
    """A training step on labkit's CUDA device."""
    import labkit
    from labkit import amp, nn, optim

    return trainer(labkit, nn.functional, optim.SGD, amp.GradScaler, "cuda", steps)


def torchs(steps: int) -> Step:
    """A training step of the installed PyTorch, on the processor."""
    import torch

    functional, optimizer, scaling = torch.nn.functional, torch.optim.SGD, torch.amp.GradScaler
    return trainer(torch, functional, optimizer, scaling, "cpu", steps)
