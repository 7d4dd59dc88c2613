"""PyTorch's two lists of operators, as they came with the installed wheel, read whole."""

import functools
from typing import Any

import yaml

from labkit.course.sources import installed_file

OPERATORS = "aten/src/ATen/native/native_functions.yaml"
FORMULAS = "tools/autograd/derivatives.yaml"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one written in C, fifty times as fast, wherever PyYAML has it."""


@functools.cache
def operators() -> dict[str, dict[str, Any]]:
    """Name with overload ("add.Tensor") -> its entry in native_functions.yaml."""
    return {entry["func"].partition("(")[0]: entry for entry in _read(OPERATORS)}


@functools.cache
def formulas() -> dict[str, dict[str, Any]]:
    """Name with overload -> its entry in derivatives.yaml."""
    return {entry["name"].partition("(")[0]: entry for entry in _read(FORMULAS)}


def _read(path: str) -> list[dict[str, Any]]:
    found = installed_file(path)
    if found is None:
        raise FileNotFoundError(f"the installed torch has no {path}")
    entries: list[dict[str, Any]] = yaml.load(found.read_text(encoding="utf-8"), Loader=LOADER)
    return entries
