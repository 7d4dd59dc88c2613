"""One step in several threads: order, bound, errors and ends, without a clock."""

import threading

import pytest

from labkit.pipeline.thread_pipeline import thread_pipeline


class Source:
    """Numbers from 0 on; how many have been taken, and whether it was closed."""

    def __init__(self, count, breaks_at=None):
        self.count, self.breaks_at, self.taken, self.closed = count, breaks_at, 0, False

    def __iter__(self):
        try:
            for item in range(self.count):
                if item == self.breaks_at:
                    raise OSError(f"item {item}")
                self.taken += 1
                yield item
        finally:
            self.closed = True


def plain(work):
    return lambda: work


def test_what_ends_early_waits_for_its_turn():
    ended = [threading.Event() for _ in range(12)]

    def work(item):
        if item % 4 == 0:
            assert ended[item + 3].wait(60)  # three workers go on meanwhile
        ended[item].set()
        return item * 10

    assert list(thread_pipeline(plain(work), range(12), 2, 4)) == [10 * n for n in range(12)]


@pytest.mark.parametrize("count", [0, 1, 3, 20])
def test_every_item_comes_out(count):
    assert list(thread_pipeline(plain(str), range(count), 3, 5)) == [str(n) for n in range(count)]


def test_the_source_is_no_more_than_ahead():
    source = Source(50)
    for given, item in enumerate(thread_pipeline(plain(lambda item: item), source, 2, 5)):
        assert item == given
        assert source.taken <= given + 5
    assert source.taken == 50


def test_each_worker_has_its_own_tool_and_all_work_at_once():
    meeting, made = threading.Barrier(3), []

    def setup():
        mine = threading.get_ident()
        made.append(mine)

        def work(item):
            meeting.wait(60)
            return threading.get_ident() == mine

        return work

    assert all(thread_pipeline(setup, range(9), 3, 6))
    assert len(made) == len(set(made)) == 3


def test_an_error_comes_out_in_the_place_of_its_item():
    source, got = Source(90), []
    with pytest.raises(ZeroDivisionError):
        for item in thread_pipeline(plain(lambda item: 1 / (item - 7)), source, 2, 4):
            got.append(item)
    assert got == [1 / (item - 7) for item in range(7)]
    assert source.taken <= 7 + 4


def test_an_error_of_setup_is_told():
    with pytest.raises(LookupError, match="no codec"):
        list(thread_pipeline(broken, range(5), 2, 4))


def broken():
    raise LookupError("no codec")


def test_an_error_of_the_source_comes_behind_the_items_before_it():
    got = []
    with pytest.raises(OSError, match="item 5"):
        for item in thread_pipeline(plain(lambda item: item), Source(9, breaks_at=5), 2, 4):
            got.append(item)
    assert got == [0, 1, 2, 3, 4]


def test_a_reader_that_leaves_ends_everything():
    before, source, begun = set(threading.enumerate()), Source(90), []
    items = thread_pipeline(plain(begun.append), source, 2, 6)
    next(items)
    items.close()
    assert set(threading.enumerate()) == before
    assert len(begun) <= source.taken <= 6
    del items
    assert source.closed


@pytest.mark.parametrize(("workers", "ahead"), [(0, 3), (3, 0), (-1, 1)])
def test_nobody_to_work_is_refused(workers, ahead):
    with pytest.raises(ValueError, match="at least 1"):
        next(thread_pipeline(plain(str), [1], workers, ahead))
