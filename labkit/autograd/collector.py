"""Python's cyclic garbage collector, asked to wait while a large graph is built.

Nodes never refer to each other in circles, so reference counts free a graph; but the collector
looks through all of it again and again as it grows. At 100,000 nodes that costs several times
what the operators cost.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_waits() -> Iterator[None]:
    """Inside the `with`, no cycles are collected; after it, collection is as it was before.

    Worth it around the forward pass of a graph of tens of thousands of nodes.

    Differs  PyTorch's nodes are C++ objects, which Python's collector does not see.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
