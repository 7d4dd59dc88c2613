"""`host_calls`: how often the host asks the device for work."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from labkit.cuda.driver import Driver
from labkit.cuda.select import current_driver

ASKING = ("launch", "memcpy_async", "memset_async", "launch_host_function", "graph_launch")


@contextlib.contextmanager
def host_calls(driver: Driver | None = None) -> Iterator[Counter[str]]:
    """Counts, by name, the driver's calls inside that queue work; what is captured counts too."""
    driver = driver or current_driver()
    counts: Counter[str] = Counter()

    def counting(name: str, call: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return call(*args, **kwargs)

        return counted

    for name in ASKING:
        setattr(driver, name, counting(name, getattr(driver, name)))
    try:
        yield counts
    finally:
        for name in ASKING:
            delattr(driver, name)
