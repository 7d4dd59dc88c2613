"""A worker that dies costs the test it died of, no other: -p tests.scopes --dist loadscope.

pytest-xdist alone gives that test to the next worker, and the next, until all are used up. It also
waits for ever once the last worker is given a file of one test: a worker begins a test only when it
knows which comes after, or that none does.
"""

from collections import Counter
from contextlib import suppress

import pytest
from xdist.scheduler import LoadScopeScheduling

FIRST = ("tests/lab/", "tests/torch_device/", "tests/workshop/")
"""Their tests set up labs, build extensions and start servers: they wait for processes of their
own. At the end, with nothing left for the other worker, that would be idle time."""


class WholeFiles(LoadScopeScheduling):
    """A file's tests run on one worker; what a dead worker left is run by another, once."""

    def remove_node(self, node):
        """The test that the worker died of, if it did: it is done with."""
        files = self.assigned_work.pop(node)
        left = (
            (tests, name) for tests in files.values() for name, done in tests.items() if not done
        )
        tests, died_of = next(left, (None, None))
        if tests is None:
            return None
        tests[died_of] = True
        self.workqueue.update(files)
        for other in self.assigned_work:
            self._reschedule(other)
        return died_of

    def _reschedule(self, node):
        if node not in self.registered_collections:
            return  # it takes the place of one that died, and has not told its tests yet
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._waits(node):
            self._assign_work_unit(node)

    def _assign_work_unit(self, node):
        """A worker may have died without our having been told; then it is removed as any other,
        and the file, which is assigned to it by then, is left to the rest."""
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _waits(self, node):
        """One test is not begun before the next is known."""
        return self._pending_of(self.assigned_work[node]) < 2


@pytest.hookimpl(trylast=True)  # what is deselected is gone by then
def pytest_collection_modifyitems(config, items):
    """Without pytest-xdist's order: what waits comes first, then files of many tests."""
    if not config.getoption("loadscopereorder"):
        number = Counter(map(file_of, items))
        places = {file: (not file.startswith(FIRST), -number[file]) for file in number}
        items.sort(key=lambda item: places[file_of(item)])


def file_of(item):
    """As pytest-xdist counts: the function itself may stand in another file."""
    return item.nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") == "loadscope":
        return WholeFiles(config, log)
    return None
