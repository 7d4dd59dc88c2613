"""What labkit leaves out of PyTorch says so by name, and where it is to be had."""

from collections.abc import Callable
from typing import NoReturn


def missing(holder: str, name: str) -> AttributeError:
    """The error of a name that its holder does not have: "module 'labkit'", "'Tensor' object"."""
    text = f"{holder} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    return AttributeError(
        f"{text}: it holds what labkit's chapters and models need, not all of PyTorch; a program "
        "that needs more runs on PyTorch itself, over labkit's device (labkit.torch_device)"
    )


def refuse_others(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module that has all its names already."""

    def __getattr__(name: str) -> NoReturn:
        raise missing(f"module {module!r}", name)

    return __getattr__
