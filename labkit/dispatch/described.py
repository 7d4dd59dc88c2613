"""A tensor in a few words."""

import sys
from typing import Any


def describe(tensor: Any) -> str:
    """A tensor in a few words, without touching its data."""
    if type(tensor).__name__ == "WrappedNumber":
        return f"the Python number {tensor.value}, wrapped in a tensor"
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        shape = getattr(tensor, "shape", None)
        return type(tensor).__name__ if shape is None else f"{type(tensor).__name__} {[*shape]}"
    words = [str(tensor.dtype).removeprefix("torch."), _shape(tensor), f"on {tensor.device}"]
    if tensor.requires_grad:
        words.append("with requires_grad")
    if tensor.is_inference():
        words.append("made in inference mode")
    return " ".join(words)


def _shape(tensor: Any) -> str:
    try:
        return str([*tensor.shape])
    except RuntimeError:  # a nested tensor has no single shape
        return "[...]"
