"""Right and wrong answers to the exercises of the host allocators."""

import sys
import threading
from typing import ClassVar

from labkit.core.allocator import DataPtr
from labkit.core.device import CPU
from labkit.course.checks import failing_cases
from labkit.course.exercise import Case
from labkit.course.exercises import find
from tests.course.answers import Answers, first_hint

answers = Answers("host_allocators")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
CATCHES = "catches every exception and returns a default"
ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"

# --- arena_allocator


@answers.right("arena_allocator")
class Arena:
    def __init__(self, source, nbytes):
        self.memory = source.allocate(nbytes)
        self.nbytes = nbytes
        self.used = self.live = 0

    def allocate(self, nbytes):
        if nbytes == 0:
            return DataPtr(0, CPU)
        start = -(-self.used // 64) * 64
        if start + nbytes > self.nbytes:
            raise MemoryError(f"{nbytes} bytes")
        self.used = start + nbytes
        self.live += 1
        return DataPtr(self.memory.address + start, CPU, self, Arena.give_back)

    def give_back(self):
        self.live -= 1

    def reset(self):
        if self.live:
            raise RuntimeError(f"{self.live} storages are alive")
        self.used = 0


class OwnDataPtr:
    def __init__(self, address, device, context=None, deleter=None):
        self.address, self.device = address, device
        self.context, self.deleter = context, deleter

    def __del__(self):
        if self.deleter is not None:
            self.deleter(self.context)


@answers.right("arena_allocator")
class OfOwnDataPtrs(Arena):
    def allocate(self, nbytes):
        pointer = super().allocate(nbytes)
        return OwnDataPtr(pointer.address, CPU, pointer, DataPtr.clear)


@answers.wrong("arena_allocator", "frees on reset regardless")
class ResetsAnyway(Arena):
    def reset(self):
        self.used = 0


@answers.wrong("arena_allocator", "alignment of the first block only")
class Unaligned(Arena):
    def allocate(self, nbytes):
        if nbytes == 0:
            return DataPtr(0, CPU)
        if self.used + nbytes > self.nbytes:
            raise MemoryError(nbytes)
        address = self.memory.address + self.used
        self.used += nbytes
        self.live += 1
        return DataPtr(address, CPU, self, Arena.give_back)


@answers.wrong("arena_allocator", "alignment of the first block only")
class RoundsTheEnd(Arena):
    """Refuses a last piece that fits but does not end on 64."""

    def allocate(self, nbytes):
        return super().allocate(nbytes) if nbytes == 0 else self.padded(nbytes)

    def padded(self, nbytes):
        if self.used + -(-nbytes // 64) * 64 > self.nbytes:
            raise MemoryError(nbytes)
        return super().allocate(nbytes)


@answers.wrong("arena_allocator", "counts tensors not storages")
class CountsHandles(Arena):
    def reset(self):
        tensors = sys._getframe(1).f_locals["self"].storages.values()
        count = sum(storage.nbytes > 0 for storage in tensors)
        if count:
            raise RuntimeError(f"{count} tensors are alive")
        self.used = 0


@answers.wrong("arena_allocator", "leaks on exception")
class CountsFirst(Arena):
    def allocate(self, nbytes):
        self.live += nbytes > 0
        pointer = super().allocate(nbytes)
        self.live -= nbytes > 0
        return pointer


@answers.wrong("arena_allocator", "leaks on exception")
class MovesFirst(Arena):
    def allocate(self, nbytes):
        before, self.used = self.used, -(-self.used // 64) * 64 + nbytes
        if self.used > self.nbytes:
            raise MemoryError(nbytes)
        self.used = before
        return super().allocate(nbytes)


@answers.wrong("arena_allocator", "zero-size gets null without device")
class NullWithoutDevice(Arena):
    def allocate(self, nbytes):
        return super().allocate(nbytes) if nbytes else None


@answers.wrong("arena_allocator", "zero-size gets null without device")
class ZeroIsAPiece(Arena):
    def allocate(self, nbytes):
        if nbytes:
            return super().allocate(nbytes)
        self.live += 1
        return DataPtr(0, CPU, self, Arena.give_back)


@answers.wrong("arena_allocator", "zero-size gets null without device")
class NoCaseForZero(Arena):
    """0 bytes get the address of the front, and are counted."""

    def allocate(self, nbytes):
        start = -(-self.used // 64) * 64
        if start + nbytes > self.nbytes:
            raise MemoryError(nbytes)
        self.used = start + nbytes
        self.live += 1
        return DataPtr(self.memory.address + start, CPU, self, Arena.give_back)


@answers.wrong("arena_allocator", "gives its memory back with the arena")
class GivesBackWithTheArena(Arena):
    def allocate(self, nbytes):
        pointer = super().allocate(nbytes)
        if nbytes:
            count = self.count = getattr(self, "count", [0])
            count[0] += 1
            pointer = DataPtr(pointer.address, CPU, count, self.down)
            pointer.deleter = type(self).down
        return pointer

    @staticmethod
    def down(count):
        count[0] -= 1

    def reset(self):
        if getattr(self, "count", [0])[0]:
            raise RuntimeError(f"{self.count[0]} storages are alive")
        self.used = 0


@answers.wrong("arena_allocator", FIRST, make=True)
def remembers_the_first_piece():
    kept = []

    class Remembers(Arena):
        def allocate(self, nbytes):
            pointer = super().allocate(nbytes)
            kept.append(pointer.address - self.memory.address)
            pointer.address = self.memory.address + kept[0]
            return pointer

    return Remembers


@answers.wrong("arena_allocator", CONSTANT)
class TheExample(Arena):
    def allocate(self, nbytes):
        self.calls = getattr(self, "calls", -1) + 1
        return DataPtr(self.memory.address + 64 * (self.calls % 2), CPU, self, lambda arena: None)


@answers.wrong("arena_allocator", CATCHES)
class Catches(Arena):
    def allocate(self, nbytes):
        try:
            return super().allocate(nbytes)
        except MemoryError:
            return DataPtr(0, CPU)


# --- move


class Owner:
    def __init__(self, address, deleter=None):
        self.address, self.deleter = address, deleter

    def __del__(self):
        if self.deleter is not None:
            self.deleter(self.address)


@answers.right("move")
def move(pointer):
    moved = Owner(pointer.address, pointer.deleter)
    pointer.address, pointer.deleter = 0, None
    return moved


@answers.wrong("move", "leaves the old one as it is")
def copies(pointer):
    return Owner(pointer.address, pointer.deleter)


@answers.wrong("move", "leaves the old one as it is")
def only_the_address(pointer):
    moved = Owner(pointer.address, pointer.deleter)
    pointer.address = 0
    return moved


@answers.wrong("move", "empties before it reads")
def empties_first(pointer):
    pointer.address, pointer.deleter = 0, None
    return Owner(pointer.address, pointer.deleter)


@answers.wrong("move", "frees at the move")
def frees(pointer):
    moved = Owner(pointer.address, pointer.deleter)
    pointer.deleter(pointer.address)
    pointer.address, pointer.deleter = 0, None
    return moved


# --- serves


@answers.right("serves")
def serves(registrations):
    best = registrations[0]
    for each in registrations:
        if each[1] >= best[1]:
            best = each
    return best[0]


@answers.wrong("serves", "the last one")
def the_last(registrations):
    return registrations[-1][0]


@answers.wrong("serves", "the first of the highest")
def first_of_the_highest(registrations):
    return max(registrations, key=lambda each: each[1])[0]


@answers.wrong("serves", "the lowest priority")
def lowest(registrations):
    return min(reversed(registrations), key=lambda each: each[1])[0]


# --- last_handle and deleter_once


class Shared:
    def __init__(self, address, release):
        self.address, self.release = address, release
        self.count, self.thread = 1, threading.get_ident()


@answers.right("deleter_once")
class Foreign:
    due: ClassVar[list] = []
    lock = threading.Lock()

    def __init__(self, address, release, shared=None):
        self.shared = shared or Shared(address, release)

    def view(self):
        shared = self.need()
        with self.lock:
            shared.count += 1
        return type(self)(0, None, shared)

    def move(self):
        shared, self.shared = self.need(), None
        return type(self)(0, None, shared)

    def need(self):
        if self.shared is None:
            raise ValueError("this handle is empty")
        return self.shared

    def close(self):
        shared, self.shared = self.shared, None
        if shared is None:
            return
        with self.lock:
            shared.count -= 1
            if shared.count:
                return
            if shared.thread != threading.get_ident():
                self.due.append(shared)
                return
        shared.release(shared.address)

    @classmethod
    def run_due(cls):
        here = threading.get_ident()
        with cls.lock:
            mine = [shared for shared in cls.due if shared.thread == here]
            cls.due[:] = [shared for shared in cls.due if shared.thread != here]
        for shared in mine:
            shared.release(shared.address)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        self.close()


@answers.right("last_handle")
class Handle:
    def __init__(self, address, release, shared=None):
        self.shared = shared or Shared(address, release)

    def view(self):
        self.need().count += 1
        return type(self)(0, None, self.shared)

    def move(self):
        shared, self.shared = self.need(), None
        return type(self)(0, None, shared)

    def need(self):
        if self.shared is None:
            raise ValueError("this handle is empty")
        return self.shared

    def close(self):
        shared, self.shared = self.shared, None
        if shared is not None:
            shared.count -= 1
            if not shared.count:
                shared.release(shared.address)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        self.close()


def per_view(base):
    class PerView(base):
        def view(self):
            shared = self.need()
            return type(self)(shared.address, shared.release)

    return PerView


def at_move(base):
    class AtMove(base):
        def move(self):
            shared = self.need()
            moved = type(self)(shared.address, shared.release)
            self.close()
            return moved

    return AtMove


def exception_leaks(base):
    class ExceptionLeaks(base):
        def __exit__(self, kind, error, trace):
            if kind is None:
                self.close()
            else:
                self.shared = None

    return ExceptionLeaks


def swallows(base):
    class Swallows(base):
        def __exit__(self, *error):
            self.close()
            return True

    return Swallows


def twice(base):
    class Twice(base):
        def close(self):
            shared = self.shared
            super().close()
            self.kept = shared or getattr(self, "kept", None)

        def __del__(self):
            self.close()
            if getattr(self, "kept", None) and not self.kept.count:
                self.kept.release(self.kept.address)

    return Twice


for broken, of_one_thread, of_several in (
    (per_view, "releases for every view", "runs per view"),
    (at_move, "releases at a move", "runs at move"),
    (exception_leaks, "an exception passes and nothing is released",
     "never runs if an exception passes"),
    (swallows, "swallows the exception", "never runs if an exception passes"),
    (twice, "releases again when the handle is dropped", "runs in the finaliser twice"),
):  # fmt: skip
    answers.wrong("last_handle", of_one_thread)(broken(Handle))
    answers.wrong("deleter_once", of_several)(broken(Foreign))


def gives_nothing(base):
    class GivesNothing(base):
        def __enter__(self):
            pass

    return GivesNothing


answers.wrong("last_handle", "`with` gives no handle")(gives_nothing(Handle))
answers.wrong("deleter_once", "`with` gives no handle")(gives_nothing(Foreign))


@answers.wrong("deleter_once", "runs at move")
class MoveIsView(Foreign):
    """The old handle is not emptied, so it keeps the memory, or is asked again."""

    def move(self):
        return self.view()


@answers.wrong("deleter_once", ORDERS)
class AnyThread(Foreign):
    def close(self):
        shared, self.shared = self.shared, None
        if shared is not None:
            shared.count -= 1
            if not shared.count:
                shared.release(shared.address)


@answers.wrong("deleter_once", ORDERS)
class LastDueFirst(Foreign):
    due: ClassVar[list] = []

    @classmethod
    def run_due(cls):
        while cls.due:
            shared = cls.due.pop()
            shared.release(shared.address)


@answers.wrong("deleter_once", FIRST, make=True)
def remembers_the_first_address():
    kept = []

    class Remembers(Foreign):
        def __init__(self, address, release, shared=None):
            kept.append(address)
            super().__init__(kept[0], release, shared)

    return Remembers


@answers.wrong("deleter_once", READS)
class ReadsTheChecker(Foreign):
    def close(self):
        module = sys.modules["labkit.course.exercises._handle_lives"]
        frame = sys._getframe(1)
        while frame is not None and "steps" not in frame.f_locals:
            frame = frame.f_back
        if frame is not None:
            try:
                module.expected_life(frame.f_locals["steps"])
            except BaseException:
                self.shared = None
        super().close()


def test_the_arena_is_drawn_at_the_first_wrong_line():
    exercise = find("host_allocators.arena_allocator")
    steps = [("make", "s0", 10), ("make", "s1", 20), ("drop", "s0"), ("reset",), ("drop", "s1")]
    right = exercise.expected(256, steps)
    got = [*right[:2], "reset: done"]
    in_use, _ = exercise.picture(Case((256, steps)), got, right).tables
    assert [row[:2] for row in in_use["rows"]] == [["20 bytes", "1"]]


def test_an_address_for_no_bytes_earns_the_hint_about_no_bytes():
    exercise = find("host_allocators.arena_allocator")
    first = next(iter(failing_cases(exercise, NoCaseForZero, 3)))
    hints = map(exercise.hint, range(len(exercise.hints)))
    fitting = [hint.text for hint in hints if hint.fits(first)]
    assert fitting[:1] and fitting[0].startswith("Nothing is asked for")


def test_memory_that_stays_with_the_source_is_told_apart_from_memory_that_goes_too_early():
    class HoldsItself(Arena):
        def __init__(self, source, nbytes):
            super().__init__(source, nbytes)
            held_for_ever.append(self.memory)

    held_for_ever = []
    arena = find("host_allocators.arena_allocator")
    assert first_hint(arena, HoldsItself).startswith("The memory does not go back")
    assert first_hint(arena, GivesBackWithTheArena).startswith("The memory went back too early")


def test_a_hint_says_what_a_handle_did_with_its_memory():
    class Uncounted(Handle):
        def view(self):
            self.need()
            return type(self)(0, None, self.shared)

    class NeverRefuses(Handle):
        def move(self):
            moved = type(self)(0, None, self.shared)
            moved.shared, self.shared = self.shared, None
            return moved

    handles = find("host_allocators.last_handle")
    assert "while another handle holds" in first_hint(handles, Uncounted)
    assert "raise ValueError" in first_hint(handles, NeverRefuses)
    assert "`with ... as`" in first_hint(handles, gives_nothing(Handle))
    assert "A handle that moved is empty" in first_hint(handles, at_move(Handle))


def test_each_handle_is_drawn_as_long_as_it_holds_memory():
    steps = [("adopt", "h0"), ("view", "h1", "h0"), ("close", "h0"), ("move", "h3", "h1")]
    drawn = find("host_allocators.last_handle").picture(Case((steps,)), [], [])
    assert drawn.lanes == ["h0", "h1", "h3"]
    assert [(span["start"], span["end"]) for span in drawn.spans] == [(0, 2), (1, 3), (3, 4)]
    assert {span["name"] for span in drawn.spans} == {"0x1000"}


test_answers = answers.tests()
