"""The dispatcher labkit's own operators live in."""

from functools import cache

from labkit.dispatch.dispatcher import Dispatcher


@cache
def dispatcher() -> Dispatcher:
    """The one dispatcher of the process; `labkit.dispatch` installs Python modes in it.

    Source   aten/src/ATen/core/dispatch/Dispatcher.h  Dispatcher::singleton
    """
    return Dispatcher()
