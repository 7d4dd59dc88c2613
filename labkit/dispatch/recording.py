"""Every kernel that labkit's dispatcher enters, written down as it happens."""

from collections.abc import Iterator
from contextlib import contextmanager

from labkit.dispatch.dispatcher import dispatcher as default
from labkit.dispatch.operator import OwningDispatcher
from labkit.dispatch.recorder import KernelRun, Recorder


@contextmanager
def recording(dispatcher: OwningDispatcher | None = None) -> Iterator[list[KernelRun]]:
    """Inside the `with`, the list grows by one for every kernel the dispatcher enters.

    Outside, calls run the code they always run: nothing asks whether somebody records.
    """
    where = dispatcher or default()
    before = where.recorder
    recorder = Recorder()
    where.set_recorder(recorder)
    try:
        yield recorder.runs
    finally:
        where.set_recorder(before)
