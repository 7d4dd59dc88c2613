"""The dispatcher labkit's own operators live in."""

from functools import cache

from labkit.dispatch.dispatcher import Dispatcher


@cache
def dispatcher() -> Dispatcher:
    """The one dispatcher of the process, with every layer installed.

    Source   aten/src/ATen/core/dispatch/Dispatcher.h  Dispatcher::singleton
    """
    from labkit.dispatch import layers  # they register through libraries, which default to this

    made = Dispatcher()
    layers.install(made)
    return made
