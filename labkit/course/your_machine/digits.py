"""Digits to train on, drawn on the spot: ten glyphs, shifted and noisy."""

import numpy as np
from numpy.typing import NDArray

GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111", "11110 00001 00001 01110 00001 00001 11110",
    "00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00010 01100",
)  # fmt: skip
"""Seven rows of five dots each."""
SIZE = 12
"""Rows and columns of an image."""


def digits(count: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """(images [count, 1, 12, 12] between 0 and 1, labels [count]); a glyph moves by one."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 10, count)
    images = 0.2 * generator.random((count, 1, SIZE, SIZE))
    for image, label in zip(images, labels, strict=True):
        rows = [[int(dot) for dot in row] for row in GLYPHS[label].split()]
        top, left = generator.integers(2, 4), generator.integers(3, 5)
        image[0, top : top + 7, left : left + 5] += 0.8 * np.array(rows)
    return images.astype(np.float32), labels
