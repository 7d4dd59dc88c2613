"""Kernel names as PyTorch's own tree has them: the same on every machine."""

import re
from typing import Any

_REGISTERED = re.compile(r"registered at (?:\S*?/)?((?:torch|aten|c10|build|functorch|test)/\S+)")
# A cell runs as a file whose name is a number: a hash of its text.
_CELL = re.compile(r"registered at (?:\S*/)?\d+\.py:(\d+)")
_INSTALLED = re.compile(r"registered at \S*/site-packages/(\S+)")
_ELSEWHERE = re.compile(r"registered at \S*/([^/\s]+)")


def shortened(data: Any) -> Any:
    """The data with every "registered at" path cut to its place in PyTorch's tree.

    A file outside that tree keeps its last name only, a notebook's cell its line.
    """
    if isinstance(data, dict):
        return {name: shortened(value) for name, value in data.items()}
    if isinstance(data, list):
        return [shortened(item) for item in data]
    if not isinstance(data, str) or "registered at " not in data:
        return data
    data = _CELL.sub(r"notebook cell, line \1", data)
    for pattern in (_INSTALLED, _REGISTERED, _ELSEWHERE):
        data = pattern.sub(r"\1", data)
    return data.replace("registered at ", "")
