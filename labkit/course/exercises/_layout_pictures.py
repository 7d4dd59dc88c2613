"""Views that an answer describes by sizes, strides and offset, drawn over one memory."""

from collections.abc import Mapping
from typing import Any

import torch

Layout = tuple[tuple[int, ...], tuple[int, ...], int]


def layouts_drawn(length: int, layouts: Mapping[str, Layout]) -> Any:
    """The named layouts over a memory of so many elements; two of them are compared."""
    from labkit import show  # drawing is for a failing case alone

    storage = torch.arange(length)
    try:
        views = [storage.as_strided(*layout) for layout in layouts.values()]
        return show.strides(*views, names=[*layouts], compare=len(views) == 2)
    except RuntimeError:  # the answer's view leaves the storage: that can be drawn, not made
        drawn = show.strides(*[storage] * len(layouts), names=[*layouts])
        for name, layout in layouts.items():
            drawn.edit(name, *layout)
        return drawn
