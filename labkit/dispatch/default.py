"""The dispatcher labkit's own operators live in."""

from functools import cache

from labkit.dispatch.dispatcher import Dispatcher


@cache
def dispatcher() -> Dispatcher:
    """The one dispatcher of the process. Source: Dispatcher::singleton."""
    return Dispatcher()
