"""Numbers of a tensor as a small heat map: cells that stand for blocks, and what is no number."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_ROWS, MOST_COLUMNS = 12, 16
NUMBERS_ON_AN_EDGE = 3


def heat_map(title: str, shape: Sequence[int], numbers: Sequence[Any]) -> dict[str, Any]:
    """What GraphView draws: rows of the last dimension, at most 12 by 16 cells.

    numbers  the elements, row after row. A cell of a larger tensor shows the element of largest
             magnitude of its block; a complex number counts with its magnitude.
    """
    columns = shape[-1] if shape else 1
    rows = math.prod(shape[:-1])
    values = np.asarray(numbers)
    if values.dtype.kind == "c":
        values = np.abs(values)
    grid = values.astype(float).reshape(rows, columns)
    grid = _blocks(_blocks(grid, MOST_ROWS).T, MOST_COLUMNS).T
    return {
        "title": f"{title} {tuple(shape)}",
        "rows": grid.shape[0],
        "columns": grid.shape[1],
        "numbers": [_number(value) for value in grid.reshape(-1).tolist()],
    }


def in_words(numbers: Sequence[float]) -> str:
    """Few numbers, as they stand on an edge."""
    words = ", ".join(f"{number:.3g}" for number in numbers)
    return words if len(numbers) == 1 else f"[{words}]"


def _blocks(grid: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """At most so many rows; each holds, per column, the value of largest magnitude of its rows."""
    if len(grid) <= most:
        return grid
    pieces = np.array_split(grid, most)
    return np.stack([_largest(piece) for piece in pieces])


def _largest(piece: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    size = np.where(np.isnan(piece), np.inf, np.abs(piece))  # what is wrong must not be hidden
    picked: np.ndarray[Any, Any] = np.take_along_axis(piece, size.argmax(axis=0)[None], axis=0)[0]
    return picked


def _number(value: float) -> float | str:
    """Four digits travel; JSON has no word for the others."""
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)
