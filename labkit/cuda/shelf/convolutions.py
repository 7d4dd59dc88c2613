"""The ladders of convolutions."""

from labkit.cuda.shelf import conv2d
from labkit.cuda.shelf.rung import Rung

LADDERS: dict[str, tuple[Rung, ...]] = {
    "conv2d": conv2d.RUNGS,
}
"""Op -> its rungs, in order."""
