"""Streams from a driver's calls: a current stream per thread, events, and wait_stream."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._never_right import FIRST
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError
from labkit.cuda.happens_before import accesses

Action = tuple[Any, ...]

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


def _of(*kinds: str) -> Any:
    """Programs that ask for these kinds of actions only."""

    def kept(actions: Sequence[Action]) -> list[Action]:
        return [
            (*one[:-1], kept(one[-1])) if one[0] in ("using", "thread") else one
            for one in actions
            if one[0] in kinds
        ]

    def made(rng: Rng, size: int) -> tuple[list[Action]]:
        return (kept(_a_program(rng, 2 + size)[0]),)

    return made


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
    stages=(
        Stage("using", case=_of("work", "using"), cases=12),
        Stage("wait_stream", case=_of("work", "using", "wait_stream"), cases=12),
        Stage("threads", case=_of("work", "using", "wait_stream", "thread"), cases=12),
        Stage("with events"),
    ),
    case=_a_program,
    expected=_expected_streams,
    drive=_drive_streams,
    smaller=_fewer_actions,
    show=_show_actions,
    banned=("labkit.cuda.stream",),
    processes=True,
    cases=60,
    seconds=10.0,
    minutes=14,
    hints=(
        Hint(
            "The log shows a host wait: {got}. Who else could do the waiting?",
            when=lambda e: "host waited" in e.got,
        ),
        Hint(
            "Two threads, two current streams: keep yours in `self.mine`. It is empty in a new "
            "thread, as `__init__` ran in another one. Where does `current` find the 0 there?",
            when=lambda e: "thread" in e.input and (e.kind == "raised" or "told" in e.property),
        ),
        Hint(
            "The order differs from what was asked. Draw the queues of {input}: which mark is "
            "recorded behind which work, and which queue waits for it?",
            when=_about("order"),
        ),
        Hint(
            "`using` notes the stream before, makes its own current, and puts the noted one back "
            "in a `finally`: it comes back also when the body raised.",
            stage="using",
        ),
        "A queue can wait for a mark in another queue.",
        "Record a mark in the queue that is waited for, and let the other one wait for that mark. "
        "A wait takes the record of that moment: to record the mark again moves no wait that was "
        "made before.",
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
