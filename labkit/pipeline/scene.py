"""A film whose truth is known: discs move over a gradient, recorded too dark and with noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
"""One picture, height x width x 3, red green blue."""


@dataclass(frozen=True)
class Scene:
    """A moving scene; the same numbers give the same film.

    darkness   what is left of the light, 0 to 1
    noise      standard deviation of the recording's error, in steps of 0..255
    """

    height: int = 96
    width: int = 160
    frames: int = 24
    discs: int = 6
    darkness: float = 0.35
    noise: float = 8.0
    seed: int = 0

    def truth(self, index: int) -> Frame:
        """Frame `index` as it is."""
        rng = np.random.default_rng(self.seed)
        rows, columns = np.mgrid[: self.height, : self.width].astype(np.float32)
        image = np.stack(
            [rows / self.height, columns / self.width, 1 - rows / self.height], axis=-1
        )
        for _ in range(self.discs):
            at, speed = rng.random(2), rng.uniform(-0.04, 0.04, 2)
            colour, radius = rng.random(3), rng.uniform(0.08, 0.2) * self.height
            row, column = (at + speed * index) % 1 * (self.height, self.width)
            inside = (rows - row) ** 2 + (columns - column) ** 2 < radius**2
            image[inside] = colour
        return (image * 255).round().astype(np.uint8)

    def recorded(self, index: int) -> Frame:
        """Frame `index` as the camera gives it: dark, and with noise."""
        rng = np.random.default_rng((self.seed, index))
        light = self.truth(index) * self.darkness
        light = light + rng.normal(0, self.noise * self.darkness, light.shape)
        return light.round().clip(0, 255).astype(np.uint8)


def error(frame: Frame, truth: Frame) -> float:
    """The mean absolute difference of two frames, in steps of 0..255."""
    return float(np.abs(frame.astype(np.int16) - truth.astype(np.int16)).mean())
