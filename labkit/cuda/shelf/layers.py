"""The ladders of network layers, losses, optimizer steps and what surrounds them."""

from labkit.cuda.shelf import softmax
from labkit.cuda.shelf.rung import Rung

LADDERS: dict[str, tuple[Rung, ...]] = {
    "softmax": softmax.RUNGS,
    "softmax_backward": softmax.BACKWARD,
}
