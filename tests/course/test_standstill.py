"""Threads that wait for each other are told from threads that can go on."""

import threading
from queue import Queue

from labkit.course.standstill import standstill


def started(function, *arguments):
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def until_still(*threads):
    while not (found := standstill(threads)):
        threads[0].join(0.01)
    return found


def test_who_waits_for_ever_is_told_with_the_method():
    full, empty = Queue(1), Queue()
    full.put(0)
    puts, gets = started(full.put, 1), started(empty.get)
    assert until_still(puts, gets) == {puts: "put", gets: "get"}
    full.get()
    empty.put(0)
    for thread in (puts, gets):
        thread.join()
    assert standstill([puts, gets]) == {}


def test_a_thread_that_can_go_on_makes_it_no_standstill():
    empty, other = Queue(), threading.Event()
    gets, goes_on = started(empty.get), started(other.wait)
    assert until_still(gets) == {gets: "get"}
    assert standstill([gets, goes_on]) == {}
    other.set()
    empty.put(0)


def test_a_thread_that_looks_again_after_a_while_is_not_lost():
    empty = Queue()
    looks = started(lambda: empty.get(timeout=60))
    gets = started(empty.get)
    until_still(gets)
    assert standstill([looks, gets]) == {}
    for _ in range(2):
        empty.put(0)


def test_threads_that_work_are_never_at_a_standstill():
    there, back = Queue(1), Queue(1)

    def echo():
        while (item := there.get()) is not None:
            back.put(item)

    def asks():
        for item in range(300):
            there.put(item)
            back.get()
        there.put(None)

    threads = [started(echo), started(asks)]
    while any(thread.is_alive() for thread in threads):
        assert standstill(threads) == {}
