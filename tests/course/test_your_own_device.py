"""Right and wrong answers to the exercises of the chapter that builds a device for PyTorch."""

import contextlib
import random
import threading

from labkit.course.checks import picture_of
from labkit.course.exercises._device_programs import fewer_steps, fewer_turns
from tests.course.answers import Answers, first_hint, smallest

answers = Answers("your_own_device")

# --- given_back


@answers.right("given_back")
def given_back(program):
    of, back = {}, []
    for what, name, *viewed in program:
        if what == "drop":
            storage = of.pop(name)
            if storage not in of.values():
                back.append(storage)
        else:
            of[name] = of[viewed[0]] if viewed else name
    return back


@answers.wrong("given_back", "goes by the tensor that made the storage")
def by_maker(program):
    made = {name for what, name, *_ in program if what == "new"}
    return [name for what, name, *_ in program if what == "drop" and name in made]


@answers.wrong("given_back", "does not know a view of a view")
def one_level(program):
    of, back = {}, []
    for what, name, *viewed in program:
        if what == "drop":
            storage = of.pop(name)
            if storage not in of.values():
                back.append(storage)
        else:
            of[name] = viewed[0] if viewed else name
    return back


@answers.wrong("given_back", "names the last tensor")
def last_tensor(program):
    of, back = {}, []
    for what, name, *viewed in program:
        if what == "drop":
            storage = of.pop(name)
            if storage not in of.values():
                back.append(name)
        else:
            of[name] = of[viewed[0]] if viewed else name
    return back


# --- steps


@answers.right("steps")
def steps(x, rows, cols):
    return x.expand(rows, cols).stride()


@answers.right("steps")
def steps_by_hand(x, rows, cols):
    shape = [1] * (2 - x.dim()) + list(x.shape)
    strides = [0] * (2 - x.dim()) + list(x.stride())
    return tuple(0 if size == 1 else step for size, step in zip(shape, strides, strict=True))


@answers.wrong("steps", "the strides of x itself")
def own_strides(x, rows, cols):
    return (*[0] * (2 - x.dim()), *x.stride())


@answers.wrong("steps", "as if x had no gaps")
def without_gaps(x, rows, cols):
    shape = [1] * (2 - x.dim()) + list(x.shape)
    return (shape[1] if shape[0] > 1 else 0), int(shape[1] > 1)


@answers.wrong("steps", "repeats rows and never columns")
def rows_only(x, rows, cols):
    shape = [1] * (2 - x.dim()) + list(x.shape)
    strides = [0] * (2 - x.dim()) + list(x.stride())
    return (0 if shape[0] == 1 else strides[0]), strides[1] or 1


# --- allocator_under_torch


@answers.right("allocator_under_torch")
class Serving:
    def __init__(self, pool):
        self.pool, self.where, self.on_host = pool, {}, set()

    def empty(self, name, nbytes, stream):
        return self.where.setdefault(name, self.pool.malloc(nbytes, stream))

    def pinned(self, name, nbytes):
        address = self.where[name] = self.pool.host(nbytes)
        self.on_host.add(address)
        return address

    def view(self, name, of):
        return self.where.setdefault(name, self.where[of])

    def drop(self, name):
        address = self.where.pop(name)
        if address in self.where.values():
            return
        if address in self.on_host:
            self.pool.host_free(address)
        else:
            self.pool.free(address)

    def allocated(self):
        return sum(self.pool.size(a) for a in set(self.where.values()) - self.on_host)


@answers.wrong("allocator_under_torch", "frees on tensor death")
class FreesAtOnce(Serving):
    def drop(self, name):
        address = self.where.pop(name)
        (self.pool.host_free if address in self.on_host else self.pool.free)(address)


@answers.wrong("allocator_under_torch", "never frees")
class Keeps(Serving):
    def drop(self, name):
        del self.where[name]


@answers.wrong("allocator_under_torch", "ignores stream")
class OneStream(Serving):
    def empty(self, name, nbytes, stream):
        return super().empty(name, nbytes, 0)


@answers.wrong("allocator_under_torch", "takes pinned memory from the device")
class FromTheDevice(Serving):
    def pinned(self, name, nbytes):
        return self.empty(name, nbytes, 0)


@answers.wrong("allocator_under_torch", "gives pinned memory to free")
class OneWayBack(Serving):
    def drop(self, name):
        address = self.where.pop(name)
        if address not in self.where.values():
            self.pool.free(address)


@answers.wrong("allocator_under_torch", "stores the address of a view and does not return it")
class SilentView(Serving):
    def view(self, name, of):
        self.where[name] = self.where[of]


@answers.wrong("allocator_under_torch", "counts bytes requested as allocated")
class CountsRequests(Serving):
    def __init__(self, pool):
        super().__init__(pool)
        self.asked = {}

    def empty(self, name, nbytes, stream):
        address = super().empty(name, nbytes, stream)
        self.asked[address] = nbytes
        return address

    def allocated(self):
        return sum(self.asked[a] for a in set(self.where.values()) - self.on_host)


@answers.wrong("allocator_under_torch", "counts a block once for each view")
class CountsViews(Serving):
    def allocated(self):
        return sum(self.pool.size(a) for a in self.where.values() if a not in self.on_host)


# --- guard_and_generator


@answers.right("guard_and_generator")
class Lab:
    def __init__(self, count):
        self.here = threading.local()
        self.generators = [random.Random(0) for _ in range(count)]

    def state(self):
        if not hasattr(self.here, "device"):
            self.here.device, self.here.streams = 0, [0, 0]
        return self.here

    def current(self):
        state = self.state()
        return state.device, state.streams[state.device]

    @contextlib.contextmanager
    def device(self, index):
        state = self.state()
        before = state.device
        state.device = index
        try:
            yield
        finally:
            state.device = before

    @contextlib.contextmanager
    def stream(self, index, number):
        with self.device(index):
            streams = self.state().streams
            before = streams[index]
            streams[index] = number
            try:
                yield
            finally:
                streams[index] = before

    def seed(self, index, number):
        self.generators[index].seed(number)

    def draw(self):
        return self.generators[self.current()[0]].random()


class Plain:
    device, streams = 0, None


@answers.wrong("guard_and_generator", "global instead of thread-local device")
class ForAllThreads(Lab):
    def __init__(self, count):
        super().__init__(count)
        self.here = Plain()
        self.here.streams = [0] * count


@answers.wrong("guard_and_generator", "not restored on exception")
class LeavesItThere(Lab):
    @contextlib.contextmanager
    def device(self, index):
        state = self.state()
        before, state.device = state.device, index
        yield
        state.device = before


@answers.wrong("guard_and_generator", "goes back to device 0")
class BackToZero(Lab):
    @contextlib.contextmanager
    def device(self, index):
        self.state().device = index
        try:
            yield
        finally:
            self.state().device = 0


@answers.wrong("guard_and_generator", "stream forgotten with the device")
class DeviceOnly(Lab):
    @contextlib.contextmanager
    def stream(self, index, number):
        with self.device(index):
            self.state().streams[index] = number
            yield


@answers.wrong("guard_and_generator", "one stream for all devices")
class OneForAll(Lab):
    @contextlib.contextmanager
    def stream(self, index, number):
        state = self.state()
        before = list(state.streams)
        with self.device(index):
            state.streams[:] = [number] * len(before)
            try:
                yield
            finally:
                state.streams[:] = before


@answers.wrong("guard_and_generator", "one generator for both")
class OneGenerator(Lab):
    def __init__(self, count):
        super().__init__(count)
        self.generators = [self.generators[0]] * count


@answers.wrong("guard_and_generator", "a generator for each thread")
class PerThread(Lab):
    def draw(self):
        state = self.state()
        if not hasattr(state, "generators"):
            state.generators = [random.Random(0), random.Random(0)]
        return state.generators[state.device].random()


@answers.wrong("guard_and_generator", "seeds the current device")
class SeedsCurrent(Lab):
    def seed(self, index, number):
        super().seed(self.current()[0], number)


@answers.wrong("guard_and_generator", "sets the stream of the current device")
class StreamOfCurrent(Lab):
    def stream(self, index, number):
        return super().stream(self.current()[0], number)


@answers.wrong("guard_and_generator", "swallows the error")
class Swallows(Lab):
    @contextlib.contextmanager
    def device(self, index):
        with super().device(index), contextlib.suppress(Exception):
            yield


def by_stride_places(x, rows, cols):
    """Fails for a tensor without dimensions."""
    return x.stride(0), x.stride(1)


def test_the_hints_name_the_mistake():
    assert "a view of a view" in first_hint(answers.exercises["given_back"], one_level)
    assert "of shape ()" in first_hint(answers.exercises["steps"], by_stride_places)
    assert "x.stride()" in first_hint(answers.exercises["steps"], without_gaps)
    assert "too many" in first_hint(answers.exercises["given_back"], by_maker)
    guard = answers.exercises["guard_and_generator"]
    assert "with this index" in first_hint(guard, SeedsCurrent)
    assert "finally lets it go on" in first_hint(guard, Swallows)
    assert "What runs in any case" in first_hint(guard, LeavesItThere)


def test_the_hints_of_an_allocator_name_the_memory_or_the_return():
    exercise = answers.exercises["allocator_under_torch"]
    assert "pool.host_free" in first_hint(exercise, OneWayBack)
    assert "pool.host_free" in first_hint(exercise, FromTheDevice)
    assert "return" in first_hint(exercise, SilentView)
    assert "each block once" in first_hint(exercise, CountsViews)
    assert "not before, and not later" in first_hint(exercise, FreesAtOnce)


def test_a_picture_is_drawn_where_it_shows_what_is_wrong():
    exercise = answers.exercises["allocator_under_torch"]
    drawn = picture_of(exercise, smallest(exercise, FreesAtOnce))
    assert "wrong" in str(drawn.get_state())
    for answer in (OneWayBack, FromTheDevice, CountsViews):
        assert picture_of(exercise, smallest(exercise, answer)) is None


def test_a_failing_program_has_a_few_steps():
    for name in ("given_back", "allocator_under_torch", "guard_and_generator"):
        for why, make in answers.wrongs[name]:
            evidence = smallest(answers.exercises[name], make())
            assert len(evidence.inputs[0]) <= 4, (why, evidence.input)


def test_a_smaller_program_can_run():
    steps = [("new", "x", 4, 0), ("view", "v", "x"), ("drop", "x"), ("drop", "v")]
    assert [("view", "v", "x")] not in [some[:1] for some in fewer_steps(steps)]
    turns = [(0, "device", 1), (0, "leave by an error")]
    assert [*fewer_turns(turns)] == [turns[:1]]


test_answers = answers.tests()
