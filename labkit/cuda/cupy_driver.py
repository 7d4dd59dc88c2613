"""A real GPU as a `Driver`, through CuPy. The only file that imports CuPy."""

from typing import Any


def why_not() -> str:
    """Empty when CuPy finds a GPU it can use, else the reason."""
    return "the CuPy driver is not written yet"


def CupyDriver(**options: Any) -> Any:
    """Not yet."""
    raise NotImplementedError(options)
