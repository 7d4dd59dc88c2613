"""Streams: wait_stream, a current stream and events from a driver's calls; and who may race."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Wrong, handed_out
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError
from labkit.cuda.happens_before import accesses, races, repaired

NOTEBOOK = "4_vision_low_level/6_streams"

FIRST = "remembers the answer of the first random case and returns it for all later cases"

Action = tuple[Any, ...]


# --- wait_stream

HOST_WAITS = ("synchronize", "stream_synchronize", "event_synchronize")


class Device:
    """One emulated device for all cases, with three streams beside the default one."""

    driver: EmulatorDriver | None = None
    streams: tuple[int, ...] = ()

    @classmethod
    def fresh(cls) -> EmulatorDriver:
        """The device, idle."""
        if cls.driver is None:
            cls.driver = EmulatorDriver(capacity=1 << 26)
            cls.streams = (0, *(cls.driver.stream_create(non_blocking=True) for _ in range(3)))
        cls.driver.synchronize()
        return cls.driver


class Calls:
    """A driver that keeps a list of what it was asked to do."""

    def __init__(self, driver: EmulatorDriver) -> None:
        self._driver = driver
        self.made: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driver, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.made.append(name)
            return found(*args, **kwargs)

        return call


class Player:
    """Plays the actions of a case on an answer's Streams and writes down what came of it."""

    def __init__(self, answer: Any) -> None:
        self.driver = Device.fresh()
        self.calls = Calls(self.driver)
        self.streams = answer(self.calls)
        self.events: dict[str, Any] = {}
        self.work: dict[str, int] = {}
        self.seen: list[tuple[str, Any]] = []

    def play(self, actions: Sequence[Action]) -> None:
        for kind, *rest in actions:
            before = len(self.calls.made)
            getattr(self, f"do_{kind}")(*rest)
            waits = [name for name in self.calls.made[before:] if name in HOST_WAITS]
            if waits and kind in ("wait_stream", "record", "wait_event"):
                self.seen.append((f"the host waited in {kind}", waits[0]))

    def do_work(self, name: str) -> None:
        self.driver.launch_host_function(self.streams.current(), lambda: None)
        self.work[name] = self.driver.queue.log[-1].id

    def do_wait_stream(self, stream: int, other: int) -> None:
        self.streams.wait_stream(Device.streams[stream], Device.streams[other])

    def do_using(self, stream: int, fails: bool, inner: Sequence[Action]) -> None:
        try:
            with self.streams.using(Device.streams[stream]):
                self.play(inner)
                if fails:
                    raise KeyError("the body failed")
        except KeyError:
            pass
        self.do_current()

    def do_current(self) -> None:
        current = self.streams.current()
        known = current in Device.streams
        self.seen.append(("current", Device.streams.index(current) if known else repr(current)))

    def do_thread(self, inner: Sequence[Action]) -> None:
        failed: list[BaseException] = []

        def run() -> None:
            try:
                self.do_current()
                self.play(inner)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    def event(self, name: str) -> Any:
        if name not in self.events:
            self.events[name] = self.streams.event()
        return self.events[name]

    def do_record(self, name: str, stream: int | None) -> None:
        self.event(name).record(None if stream is None else Device.streams[stream])

    def do_wait_event(self, name: str, stream: int | None) -> None:
        self.event(name).wait(None if stream is None else Device.streams[stream])

    def do_query(self, name: str) -> None:
        self.seen.append((f"query {name}", self.event(name).query()))

    def do_synchronize(self, name: str) -> None:
        self.event(name).synchronize()
        self.seen.append((f"synchronize, then query {name}", self.event(name).query()))

    def do_elapsed(self, first: str, second: str) -> None:
        self.driver.synchronize()
        try:
            told: Any = self.event(first).elapsed(self.event(second)) >= 0
        except CudaError:
            told = "CudaError"
        self.seen.append((f"elapsed {first} to {second} is 0 or more", told))

    def order(self) -> list[tuple[str, str]]:
        """Pairs of works whose order the device must keep, from its own queue."""
        before: dict[int, set[int]] = {}
        for work in self.driver.queue.log:
            found = set(work.dep_ids)
            for dep in work.dep_ids:
                found |= before.get(dep, set())
            before[work.id] = found
        return [
            (one, other)
            for one, first in self.work.items()
            for other, second in self.work.items()
            if first in before.get(second, set())
        ]


def _drive_streams(answer: Any, actions: Sequence[Action]) -> dict[str, Any]:
    """The order that the answer's calls brought about, and what it told on the way."""
    player = Player(answer)
    player.driver.queue.log.clear()
    player.play(actions)
    order = player.order()
    player.driver.synchronize()
    return {"told": player.seen, "order": order}


def _expected_streams(actions: Sequence[Action]) -> dict[str, Any]:
    """The same actions, with clocks instead of a device."""
    program: list[Action] = []
    names: list[str] = []
    recorded: list[str] = []
    seen: list[tuple[str, Any]] = []

    def play(actions: Sequence[Action], current: int) -> None:
        for kind, *rest in actions:
            if kind == "work":
                program.append(("run", current, (), ()))
                names.append(rest[0])
            elif kind == "wait_stream":
                mark = len(program)
                program.extend([("record", rest[1], mark), ("wait", rest[0], mark)])
            elif kind == "using":
                play(rest[2], rest[0])
                seen.append(("current", current))
            elif kind == "thread":
                seen.append(("current", 0))
                play(rest[0], 0)
            elif kind in ("record", "wait_event"):
                where = current if rest[1] is None else rest[1]
                program.append(("record" if kind == "record" else "wait", where, rest[0]))
                recorded.extend(rest[:1] if kind == "record" else [])
            elif kind == "query":
                seen.append((f"query {rest[0]}", rest[0] not in recorded))
            elif kind == "synchronize":
                seen.append((f"synchronize, then query {rest[0]}", True))
            else:
                told = True if set(rest) <= set(recorded) else "CudaError"
                seen.append((f"elapsed {rest[0]} to {rest[1]} is 0 or more", told))

    play(actions, 0)
    work = list(zip(names, accesses(program), strict=True))
    order = [
        (name, other)
        for i, (name, one) in enumerate(work)
        for other, later in work[i + 1 :]
        if one.is_before(later)
    ]
    return {"told": seen, "order": order}


def _some_actions(rng: Rng, size: int, depth: int, names: Iterator[str]) -> list[Action]:
    """Actions of one thread; queries come right behind a record, where the answer is sure."""
    made: list[Action] = []
    for _ in range(rng.randint(1, 2 + size)):
        stream, other = rng.randint(0, 3), rng.randint(0, 3)
        kind = rng.choice(("work", "work", "work", "wait", "wait", "using", "event", "thread"))
        if kind == "work":
            made.append(("work", next(names)))
        elif kind == "wait":
            made.append(("wait_stream", stream, other))
            made.append(("using", stream, False, [("work", next(names))]))
        elif kind == "using" and depth:
            inner = _some_actions(rng, size // 2, depth - 1, names)
            made.append(("using", stream, rng.chance(0.3), inner))
        elif kind == "thread" and depth:
            inner = _some_actions(rng, size // 2, depth - 1, names)
            made.append(("thread", [("using", stream, False, inner)]))
        elif kind == "event":
            event, second = rng.sample("EFG", 2)
            made.append(("record", event, rng.choice((None, stream))))
            made.append(("work", next(names)))
            if rng.chance(0.5):  # another mark before the first is waited for
                made.append(("record", second, other))
            made.append(("wait_event", event, rng.choice((None, rng.randint(0, 3)))))
            made.append(("work", next(names)))
    return made


def _a_program(rng: Rng, size: int) -> tuple[list[Action]]:
    names = iter([f"w{n}" for n in range(1, 400)])
    made: list[Action] = []
    if rng.chance(0.3):
        made.append(("query", "never"))
    made += _some_actions(rng, size, 2, names)
    if rng.chance(0.5):  # two events in flight at once, on queues that have something to do
        for event, stream in (("A", 1), ("B", 2)):
            made.append(("using", stream, False, [("work", next(names)), ("work", next(names))]))
            made.append(("record", event, stream))
        made.append(("query", rng.choice("AB")))
        made += [("synchronize", "A"), ("synchronize", "B"), ("elapsed", "A", "B")]
    if rng.chance(0.3):
        made.append(("elapsed", "never", "A"))
    return (made,)


def _fewer_actions(actions: list[Action]) -> Iterator[tuple[list[Action]]]:
    for at in range(len(actions)):
        yield (actions[:at] + actions[at + 1 :],)
    for at, action in enumerate(actions):
        if action[0] in ("using", "thread"):
            for (inner,) in _fewer_actions(list(action[-1])):
                yield ([*actions[:at], (*action[:-1], inner), *actions[at + 1 :]],)


def _show_actions(actions: Sequence[Action]) -> str:
    def said(action: Action) -> str:
        kind, *rest = action
        if kind == "using":
            end = " raises" if rest[1] else ""
            return f"using({rest[0]}): [{'; '.join(map(said, rest[2]))}{end}]"
        if kind == "thread":
            return f"in a thread: [{'; '.join(map(said, rest[0]))}]"
        return f"{kind}({', '.join('current' if one is None else str(one) for one in rest)})"

    return "; ".join(map(said, actions))


def _about(*words: str) -> Any:
    return lambda evidence: any(word in evidence.property for word in words)


wait_stream = Exercise(
    id="streams.wait_stream",
    statement=(
        "Write class Streams(driver) from the driver's calls event_create(), event_record(event, "
        "stream), stream_wait_event(stream, event), event_query(event), event_synchronize(event) "
        "and event_elapsed_ms(start, end); streams and events are ints, 0 the default stream. "
        "current() is the stream of the calling thread, 0 at first. using(stream) is a context "
        "manager: inside it that stream is current in this thread, afterwards the one before, also "
        "after an error. wait_stream(stream, other): what is queued on stream from now on runs "
        "behind what is queued on other now; the host does not wait. event() makes an object "
        "with record(stream=None), wait(stream=None), query(), synchronize() and elapsed(end), "
        "None being the current stream; an event that was never recorded is complete, waiting for "
        "it does nothing, and elapsed with it raises labkit.cuda.errors.CudaError. Example: after "
        "wait_stream(2, 1) work queued on 2 runs behind the work that was on 1."
    ),
    rules=("the host waits in synchronize() and nowhere else",),
    case=_a_program,
    expected=_expected_streams,
    drive=_drive_streams,
    smaller=_fewer_actions,
    show=_show_actions,
    banned=("labkit.cuda.stream", "labkit.cuda.event"),
    processes=True,
    cases=80,
    seconds=10.0,
    minutes=30,
    difficulty=3,
    hints=(
        Hint(
            "The log shows a host wait: {got}. Who else could do the waiting?",
            when=lambda e: "host waited" in e.got,
        ),
        Hint(
            "Two threads, two current streams. Where do you keep yours? threading.local() gives "
            "each thread its own.",
            when=lambda e: "thread" in e.input and "told" in e.property,
        ),
        Hint(
            "The order differs from what was asked. Draw the queues of {input}: which mark is "
            "recorded behind which work, and which queue waits for it?",
            when=_about("order"),
        ),
        "The log shows a host wait inside wait_stream, or the wrong queue waits.",
        "A queue can wait for a mark in another queue.",
        "Record here, make the other wait for that record: event_record(event, other), then "
        "stream_wait_event(stream, event). A wait takes the record of that moment: to record the "
        "event again moves no wait that was made before.",
    ),
    must_fail=(
        "synchronises the host",
        "waits for later work too",
        "records on the wrong stream",
        "global current stream",
        "event reused before completion",
        "is right on the default stream or device and wrong on another one",
        "is right in forward thread and queue order only and fails in a reversed or shuffled order",
        FIRST,
    ),
)


# --- race_finder

LARGE, LARGEST_SIZE = 10_000, 30


def _buffers(rng: Rng, pool: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    reads = tuple(sorted({rng.choice(pool) for _ in range(rng.randint(0, 2))}))
    writes = (rng.choice(pool),) if rng.chance(0.6) or not reads else ()
    return reads, writes


def _a_stream_program(rng: Rng, size: int) -> tuple[list[Action]]:
    if size == LARGEST_SIZE and rng.chance(0.3):
        return (_a_large_program(rng),)
    size //= 4
    streams, pool = rng.randint(1, 3), "abcdefgh"[: rng.randint(1, 2 + size // 3)]
    program: list[Action] = []
    for _ in range(rng.randint(1, 3 + 2 * size)):
        stream, event = rng.randint(1, streams), rng.choice("EF")
        kind = rng.random()
        if kind < 0.5:
            program.append(("run", stream, *_buffers(rng, pool)))
        elif kind < 0.65:
            program.append(("record", stream, event))
        elif kind < 0.8:
            program.append(("wait", stream, event))
        elif kind < 0.86:
            program.append(("host wait", event))
        elif kind < 0.92:
            program.append(("synchronize", rng.choice((stream, stream, None))))
        else:
            program.append(("host", *_buffers(rng, pool)))
    if rng.chance(0.2):
        at = rng.randint(0, len(program))
        program[at:at] = _relay(rng.sample((1, 2, 3), 3), rng.choice(pool))
    return (program,)


def _relay(streams: Sequence[int], buffer: str) -> list[Action]:
    """Order handed on from the first stream to the last by way of the second."""
    first, second, last = streams
    return [
        ("run", first, (), (buffer,)), ("record", first, "R1"), ("wait", second, "R1"),
        ("run", second, ("x",), ()), ("record", second, "R2"), ("wait", last, "R2"),
        ("run", last, (buffer,), ()),
    ]  # fmt: skip


def _a_large_program(rng: Rng) -> list[Action]:
    """Eight streams with memory of their own, and a few places where they meet."""
    program: list[Action] = []
    for n in range(LARGE):
        stream = rng.randint(1, 8)
        program.append(("run", stream, (f"in{n}",), (f"own{n}",)))
    for k in range(3):
        at = rng.randint(0, len(program))
        ordered = rng.chance(0.5)
        meeting: list[Action] = [("run", 1 + k, (), (f"shared{k}",))]
        meeting += [("record", 1 + k, k), ("wait", 2 + k, k)] if ordered else []
        program[at:at] = [*meeting, ("run", 2 + k, (f"shared{k}",), ())]
    return program


def _judge_races(case: Case, got: Any) -> str | Wrong | None:
    if isinstance(got, Raised):
        return f"it {got!r}"
    (program,) = case.inputs
    right = races(program)
    if not (isinstance(got, list | tuple) and len(got) == 2):
        return Wrong("two lists are returned: races and repair", (right, "a list of some of them"))
    try:
        found = [tuple(pair) for pair in got[0]]
        repair = [tuple(pair) for pair in got[1]]
    except TypeError:
        return Wrong("races and repair are lists of pairs", (right, "a list of some of them"))
    if sorted(found) != right:
        extra, missed = set(found) - set(right), set(right) - set(found)
        if extra:
            first = min(extra, key=repr)
            return Wrong(f"no false alarm: {first} is ordered, or no race at all", right)
        if missed:
            return Wrong(f"every race is found: {min(missed)} is missing", right)
        return Wrong("each race is listed once", right)
    if not set(repair) <= set(right) or len(set(repair)) != len(repair):
        return Wrong("repair is a list of some of the races, each once", right)
    left = races(repaired(program, repair))
    if left:
        return Wrong(f"with an event per pair of repair no race is left, but {len(left)} are")
    for pair in repair:
        if not races(repaired(program, [one for one in repair if one != pair])):
            return Wrong(f"no event too many: the repair works without {pair}")
    return None


def _fewer_steps(program: list[Action]) -> Iterator[tuple[list[Action]]]:
    if len(program) > 100:
        half = len(program) // 2
        yield (program[:half],)
        yield (program[half:],)
        return
    for at in range(len(program)):
        yield (program[:at] + program[at + 1 :],)


@handed_out
def show_program(program: Sequence[Action]) -> str:
    """The program in words, one number per step; a long one by its size."""
    if len(program) > 40:
        return f"{len(program)} steps, from {program[0]!r} on"
    return ", ".join(f"{n}: {step!r}" for n, step in enumerate(program))


race_finder = Exercise(
    id="streams.race_finder",
    statement=(
        "Write race_finder(program), a list of steps, each a tuple: ('run', stream, reads, "
        "writes), ('record', stream, event), ('wait', stream, event), ('host wait', event), "
        "('synchronize', stream or None for the device), ('host', reads, writes). Return (races, "
        "repair). races: all pairs (i, j), i < j, of positions of run or host steps that touch one "
        "buffer, at least one of them writing, in no sure order. repair: some of those pairs, "
        "such that an event recorded right behind i and waited for right before j (by j's stream, "
        "or by the host) for each of them leaves no race, and none of them can be left out. An "
        "event waited for before its first record is complete. Example: [('run', 1, (), ('a',)), "
        "('run', 2, ('a',), ())] gives ([(0, 1)], [(0, 1)])."
    ),
    rules=("programs have up to 10,100 steps",),
    case=_a_stream_program,
    judge=_judge_races,
    smaller=_fewer_steps,
    show=show_program,
    banned=("labkit.*", "labkit.cuda.happens_before"),
    cases=300,
    seconds=3.0,
    sizes=LARGEST_SIZE,
    minutes=35,
    difficulty=4,
    hints=(
        Hint(
            "Your false alarm is ordered through a third stream, or by the host having waited: "
            "everything queued after a host wait comes behind what it waited for, on all streams.",
            when=_about("false alarm"),
        ),
        Hint(
            "Two reads never race, and two steps of one stream never do. What else touches the "
            "buffer of the missing pair?",
            when=_about("is missing"),
        ),
        Hint(
            "One event often orders several pairs. Add them one by one, recompute, and drop those "
            "without which nothing is left either.",
            when=_about("too many", "is left"),
        ),
        "Your false alarm is ordered through a third stream.",
        "Compute reachability: for each step, what is known to have run before it?",
        "Vector clocks per queue: one number per stream. A record copies the queue's clock, a wait "
        "takes the maximum of two, and a host wait gives it to everything queued afterwards.",
    ),
    must_fail=(
        "flags every cross-stream pair",
        "ignores read-read",
        "ignores transitive order",
        "host wait treated as per-stream",
        "repairs by a device-wide wait",
        FIRST,
        "is right on small cases and exceeds the size limit on large ones (quadratic, recursive or "
        "waiting for ever)",
    ),
)

EXERCISES = (wait_stream, race_finder)
