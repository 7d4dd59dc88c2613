"""`show.tiles`: which cells of a tensor an index picks, and where each lands in the result."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from labkit.widgets.cuda.tile_view import TileView

MAX_CELLS = 1 << 20


def tiles(
    tensor: Any,
    indices: Mapping[str, Any] | None = None,
    title: str = "",
    at: int | str | None = None,
) -> TileView:
    """The grid of a tensor of at most two dimensions and, per index, the cells it picks.

    tensor   torch or labkit tensor, or array, of 0, 1 or 2 dimensions and at most 2**20 elements
    indices  text shown -> index (what would stand between the brackets), one step each. The small
             number in a picked cell counts the places of the result that read it in order; a cell
             that several places read carries the first and a plus sign.
    at       the step to open at: its number, from 1, or words of its text

    Raises   ValueError   more than two dimensions, too many elements, or no step `at`
             IndexError   an index that does not fit, as the tensor itself raises it
    """
    shape = tuple(tensor.shape)
    if len(shape) > 2:
        raise ValueError(f"show.tiles draws at most 2 dimensions, got shape {shape}; select first")
    values = _folded(tensor)
    source = {"name": "source", "values": values}
    if not indices:
        return TileView([source], title=title)
    positions = np.arange(values.size).reshape(np.shape(_array(tensor)))
    layers, frames = [source], []
    for text, index in indices.items():
        result = _array(tensor[index])
        picked = _array(_like(tensor, positions)[index]).ravel()
        name = f"[{text}] -> {tuple(result.shape)}"
        layers.append({"name": name, "values": _folded(result)})
        frames.append(
            {
                "text": f"[{text}] gives shape {tuple(result.shape)}",
                "show": ["source", name],
                "marks": {"source": _marks(picked, max(1, values.shape[1]))},
            }
        )
    return TileView(layers, frames, title=title).open_at(at)


def _marks(picked: Any, cols: int) -> list[tuple[int, int, str]]:
    first: dict[int, str] = {}
    for place, cell in enumerate(picked.tolist()):
        first[cell] = f"{first[cell].rstrip('+')}+" if cell in first else str(place)
    return [(cell // cols, cell % cols, label) for cell, label in first.items()]


def _array(tensor: Any) -> Any:
    return np.asarray(tensor.tolist()) if hasattr(tensor, "tolist") else np.asarray(tensor)


def _like(tensor: Any, positions: Any) -> Any:
    """The positions as the same kind of tensor, so that the same indexing rules apply."""
    if isinstance(tensor, np.ndarray):
        return positions
    import torch

    if isinstance(tensor, torch.Tensor):
        return torch.from_numpy(positions)
    import labkit

    return labkit.from_numpy(positions)


def _folded(tensor: Any) -> Any:
    """The values in rows of the last dimension; every other dimension is stacked."""
    shape = tuple(tensor.shape)
    if np.prod(shape) > MAX_CELLS:
        raise ValueError(f"show.tiles draws at most {MAX_CELLS} cells, got shape {shape}")
    array = _array(tensor)
    return array.reshape(int(np.prod(shape[:-1])), shape[-1] if shape else 1)
