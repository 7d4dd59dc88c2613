"""`show.pictures`: frames side by side, each under its name."""

import base64
import io
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np


class Pictures:
    """Pictures in a row: HTML where they are shown, and their names and sizes as text.

    A picture of height x width x 3 has colours, bytes or numbers from 0 to 1; one of height x width
    numbers is drawn from dark for 0 to bright for the largest.
    """

    def __init__(self, frames: Mapping[str, Any]) -> None:
        self.frames = {name: _array(frame) for name, frame in frames.items()}

    def __repr__(self) -> str:
        return "; ".join(
            f"{name}: {frame.shape[0]} x {frame.shape[1]}{_largest(frame)}"
            for name, frame in self.frames.items()
        )

    def _repr_html_(self) -> str:
        width = f"{96 // max(len(self.frames), 3)}%"  # small ones are not blown up
        figures = "".join(
            f'<figure style="margin:0;width:{width}"><img style="width:100%;'
            f'box-sizing:border-box;border:1px solid #8888;image-rendering:pixelated" '
            f'alt="{escape(name)}" src="data:image/png;base64,'
            f'{_png(frame)}"><figcaption>{escape(name + _largest(frame))}</figcaption></figure>'
            for name, frame in self.frames.items()
        )
        return f'<div style="display:flex;gap:1%">{figures}</div>'


def pictures(**frames: Any) -> Pictures:
    """These frames side by side; `_` in a name is shown as a space.

    frames  arrays or tensors [height, width, 3] or [height, width], or tensors [3, height, width]
            with any number of ones before

    Raises   ValueError   a frame has another shape
    """
    return Pictures({name.replace("_", " "): frame for name, frame in frames.items()})


def _array(frame: Any) -> np.ndarray[Any, Any]:
    values = np.asarray(frame.detach().cpu() if hasattr(frame, "detach") else frame)
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    if values.ndim == 3 and values.shape[0] == 3 != values.shape[2]:
        values = values.transpose(1, 2, 0)
    if values.ndim != 2 and not (values.ndim == 3 and values.shape[2] == 3):
        raise ValueError(f"no picture has shape {values.shape}: [H, W], [H, W, 3] or [3, H, W]")
    if values.ndim == 3 and values.dtype.kind == "f":
        values = values.clip(0, 1)
    return values


def _largest(frame: np.ndarray[Any, Any]) -> str:
    return f" (largest value {frame.max():.3g})" if frame.ndim == 2 else ""


def _png(frame: np.ndarray[Any, Any]) -> str:
    from matplotlib import image  # 0.3 s, and only where pictures are shown

    file = io.BytesIO()
    if frame.ndim == 2:
        image.imsave(file, frame.astype(float), cmap="inferno", vmin=0, vmax=max(0, frame.max()))
    else:
        image.imsave(file, np.ascontiguousarray(frame))
    return base64.b64encode(file.getvalue()).decode()
