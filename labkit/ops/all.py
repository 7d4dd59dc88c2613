"""Every module that defines operators: importing this one makes them all callable.

A new module adds its line.
"""

from labkit.ops import (  # noqa: F401
    advanced_indexing,
    arithmetic,
    cpu_fallback,
    moving,
    reinterpret,
    shape,
    split,
    view,
)
