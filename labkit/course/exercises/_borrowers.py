"""A pool of memory at work: who borrows what on which stream, and what an answer gets wrong."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

Steps = list[tuple[Any, ...]]
NO_LIMIT = 10**6


class Event:
    """A mark in a stream, behind what was queued there when it was made."""

    def __init__(self, device: "Device", stream: int, name: str) -> None:
        self._device, self._stream, self._name = device, stream, name
        self._behind = device._queued[stream]

    def done(self) -> bool:
        """Whether the stream has come this far by now; nobody waits."""
        done = self._device._ran[self._stream] >= self._behind
        if done:
            self._device.program.append(("host wait", self._name))
        return done


class Device:
    """Two streams, and memory for a pool; a seed says how the streams get on beside each other."""

    def __init__(self, seed: int) -> None:
        self._rng = Rng(str(seed))
        self._share = self._rng.choice((0.02, 0.3, 0.5, 0.7, 0.98))
        self._queues: dict[int, list[Any]] = {0: [], 1: []}
        self._queued, self._ran = {0: 0, 1: 0}, {0: 0, 1: 0}
        self._events = 0
        self.made: list[bytearray] = []
        self.damaged: list[int] = []
        self.program: Steps = []

    def make(self, nbytes: int) -> bytearray:
        """A new buffer."""
        self.made.append(bytearray(nbytes))
        return self.made[-1]

    def record(self, stream: int) -> Event:
        """An event behind all work that is queued on the stream now."""
        self._events += 1
        name = f"event {self._events}"
        self.program.append(("record", stream, name))
        return Event(self, stream, name)

    def work(self, job: int, buffer: bytearray, nbytes: int, stream: int) -> None:
        """Queue: the job writes its number, and later looks whether it is still there."""

        def write() -> None:
            buffer[:nbytes] = bytes([job % 251]) * nbytes

        def look() -> None:
            if buffer[:nbytes] != bytes([job % 251]) * nbytes:
                self.damaged.append(job)

        self._queues[stream] += [write, look]
        self._queued[stream] += 2

    def run(self, most: int) -> None:
        """At most so many pieces of queued work run, each stream in its own order."""
        for _ in range(most):
            waiting = [stream for stream, queue in self._queues.items() if queue]
            if not waiting:
                return
            first = waiting[0] if self._rng.chance(self._share) else waiting[-1]
            self._ran[first] += 1
            self._queues[first].pop(0)()


class Lent(NamedTuple):
    """What a right pool lends, and what it knows of every buffer at this moment.

    of_all   buffer -> (bytes, stream of its return, whether its work was done, whether it is
             still held idle), None while lent
    """

    place: int
    new: bool
    of_all: dict[int, tuple[int, int, bool, bool] | None]


def _sizes(rng: Rng) -> int:
    return rng.choice((100, 128, 130, 200, 256, 300, 500, 512))


def _borrowers(
    rng: Rng, size: int, limit: bool = True, streams: bool = True
) -> tuple[Steps, int, int]:
    """Steps, the limit, and the seed of the device's order."""
    steps: Steps = []
    held: list[tuple[int, int]] = []
    jobs = 0
    while len(steps) < 6 + 8 * size:
        what = rng.random()
        if held and what < 0.4:
            steps.append(("give back", *held.pop(rng.randrange(len(held)))))
        elif what < 0.8 or not streams:
            stream = rng.randint(0, 1) if streams else 0
            steps.append(("lend", jobs, _sizes(rng), stream))
            held.append((jobs, stream))
            jobs += 1
        elif limit and what < 0.83:
            steps.append(("trim", 128 * rng.randint(0, 8)))
        else:
            steps.append(("run", rng.randint(1, 6)))
    return steps, 128 * rng.randint(4, 16) if limit else NO_LIMIT, rng.getrandbits(30)


def _drive_pool(answer: Any, steps: Steps, limit: int, seed: int) -> dict[str, Any]:
    """For each `lend` the buffer, in words; whose numbers were overwritten; what was counted."""
    device = Device(seed)
    pool, held, told = answer(device, limit), {}, []
    for what, *rest in steps:
        if what == "lend":
            job, nbytes, stream = rest
            count = len(device.made)
            held[job] = buffer = pool.lend(nbytes, stream)
            place = next((at for at, one in enumerate(device.made) if one is buffer), None)
            told.append(_in_words(place, len(device.made) > count))
            if place is not None:
                device.program.append(("run", stream, (), (f"buffer {place}",)))
                device.work(job, buffer, nbytes, stream)
        elif what == "give back":
            pool.give_back(held.pop(rest[0]), rest[1])
        elif what == "trim":
            pool.trim(rest[0])
        else:
            device.run(rest[0])
    device.run(10**9)
    return _pool_report(told, device.damaged, [pool.made, pool.reused], device.program)


@handed_out
def _pool_report(
    lent: list[str], damaged: list[int], counted: Any, program: Steps
) -> dict[str, Any]:
    return {"lent": lent, "overwritten": damaged, "made and reused": counted, "program": program}


@handed_out
def _in_words(place: int | None, new: bool) -> str:
    return "none of device.make" if place is None else f"{'new' if new else 'old'} #{place}"


def _right_pool(steps: Steps, limit: int, seed: int) -> dict[str, Any]:
    lent = [_in_words(one.place, one.new) for one in _lent(steps, limit, seed)]
    made = sum(word.startswith("new") for word in lent)
    return {"lent": lent, "overwritten": [], "made and reused": [made, len(lent) - made]}


def _judge_pool(case: Case, got: Any) -> Any:
    right = _right_pool(*case.inputs)
    if isinstance(got, Raised):
        return "lend, give_back and trim return"
    said = {name: got[name] for name in right}
    if said["overwritten"]:
        return Wrong(f"every job finds its own number; overwritten: {said['overwritten']}", right)
    return None if said == right else Wrong("what is lent, and what was counted", right)


def _bucket(nbytes: int) -> int:
    return 1 << (nbytes - 1).bit_length()


def _lent(steps: Steps, limit: int, seed: int) -> Iterator[Lent]:
    device, idle = Device(seed), list[tuple[int, int, Event]]()
    sizes: list[int] = []
    held: dict[int, int] = {}
    last: dict[int, tuple[int, int, Event] | None] = {}
    for what, *rest in steps:
        most = None
        if what == "lend":
            job, nbytes, stream = rest
            size = _bucket(nbytes)
            fits = [
                at
                for at, (one, on, event) in enumerate(idle)
                if sizes[one] == size and (on == stream or event.done())
            ]
            if fits:
                held[job] = idle.pop(fits[0])[0]
            else:
                held[job] = len(sizes)
                sizes.append(size)
            at_rest = {one for one, _, _ in idle} | ({held[job]} if fits else set())
            known = {
                one: (back[0], back[1], back[2].done(), one in at_rest) if back else None
                for one, back in last.items()
            }
            yield Lent(held[job], not fits, known)
            last[held[job]] = None
            device.work(job, bytearray(size), nbytes, stream)
        elif what == "give back":
            one = held.pop(rest[0])
            idle.append((one, rest[1], device.record(rest[1])))
            last[one] = sizes[one], rest[1], idle[-1][2]
            most = limit
        elif what == "trim":
            most = rest[0]
        else:
            device.run(rest[0])
        while most is not None and sum(sizes[one] for one, _, _ in idle) > most:
            idle.pop(0)


def _mistake(evidence: Any) -> str:
    """What is wrong with the first buffer that should not have been lent."""
    steps, limit, seed = evidence.inputs
    wishes = [step[2:] for step in steps if step[0] == "lend"]
    for got, one, (nbytes, stream) in zip(
        evidence.value["lent"], _lent(steps, limit, seed), wishes, strict=True
    ):
        if got == _in_words(one.place, one.new):
            continue
        kind, _, at = got.partition(" #")
        if kind != "old":
            return "not used again" if kind == "new" else "not made by make"
        back = one.of_all.get(int(at))
        if back is None:
            return "lent twice"
        size, returned, done, still = back
        if size != _bucket(nbytes):
            return "another size"
        if returned != stream and not done:
            return "still at work"
        return "not the first" if still else "dropped"
    return ""


def _pool_told(steps: Steps, limit: int, seed: int) -> str:
    words = {
        "lend": "job {} borrows {} bytes on stream {}",
        "give back": "job {} gives back",
        "trim": "trim({})",
        "run": "{} pieces of work run",
    }
    said = "; ".join(words[what].format(*rest) for what, *rest in steps)
    return said + (f"; limit {limit} bytes" if limit < NO_LIMIT else "") + f" (order {seed})"


def _pool_drawn(case: Any, got: Any, right: Any) -> Any:
    """What was queued on which buffer: overlapping work on one buffer is in no order."""
    from labkit import show

    return show.streams(got["program"], title="your pool: what overlaps here may overlap")


tensor_pool = Exercise(
    id="reuse.tensor_pool",
    case=_borrowers,
    judge=_judge_pool,
    drive=_drive_pool,
    show=_pool_told,
    picture=_pool_drawn,
    minutes=15,
    cases=64,
    stages=(
        Stage("lend and return", case=lambda rng, size: _borrowers(rng, size, False, False)),
        Stage("streams", case=lambda rng, size: _borrowers(rng, size, False), cases=32),
        Stage("a limit"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("A buffer was lent while somebody still had it: lend takes it out of the idle ones.",
             when=lambda e: _mistake(e) == "lent twice"),
        Hint("A buffer of another size was lent, or was made in another size: bucket says how "
             "many bytes each one has.", when=lambda e: _mistake(e) == "another size"),
        Hint("A buffer was lent on the other stream while work on it was still queued. Record an "
             "event in give_back, on the stream that worked, and ask it in lend.",
             when=lambda e: _mistake(e) == "still at work"),
        Hint("An idle buffer fitted, and a new one was made. It fits if its size is "
             "bucket(nbytes), and if it was used on this stream or its event is done.",
             when=lambda e: _mistake(e) == "not used again" and e.stage != "a limit"),
        Hint("A buffer was lent that should have been dropped. After each give_back: while the "
             "idle buffers have more bytes than the limit, drop the one given back first.",
             when=lambda e: _mistake(e) == "dropped"),
        Hint("A buffer is missing that should still be idle. Drop the one given back first, and "
             "only while the idle ones have more bytes than the limit.",
             when=lambda e: _mistake(e) == "not used again"),
        Hint("Of several that fit, lend the one that was given back first.",
             when=lambda e: _mistake(e) == "not the first"),
        Hint("The buffers are right, and what was counted is not: `made` counts calls of "
             "device.make, `reused` the other calls of lend.",
             when=lambda e: _mistake(e) == "" and not e.value["overwritten"]),
        "A list of (buffer, stream, event), the oldest first, is enough.",
    ),
    must_fail=(
        "one tensor per key",
        "reuses on any stream",
        "returns while in use on a stream",
        "asks the event of the wrong stream",
        "is right in forward queue order only",
        "never lends to the other stream",
        "never trims",
        "drops the newest",
        "never reuses",
        "exact shapes only",
        "lends what is larger, too",
        "lends the one given back last",
        "counts what was asked",
    ),
)  # fmt: skip


# --- used_after_return

FILL = 0xA5
HABITS = ("gives back", "keeps a name", "keeps a part", "writes later", "writes, then lets go",
          "writes in the first byte", "writes in the last byte",
          "writes one more and one less", "writes the same bit twice", "writes a 0")  # fmt: skip


def _habits(rng: Rng, size: int, habits: tuple[str, ...] = HABITS) -> tuple[list[str], int, int]:
    """What each borrower of one buffer does, its bytes, and a seed for its content."""
    return [rng.choice(habits) for _ in range(2 + size)], 2 + 7 * size, rng.getrandbits(30)


def _drive_debug(answer: Any, habits: list[str], nbytes: int, seed: int) -> dict[str, Any]:
    """For each borrower, whether the next one is told, and whether a late reader is misled."""
    returned, look = answer
    buffer, rng, kept, told = bytearray(nbytes), Rng(str(seed)), list[Any](), list[str]()
    stayed = set(range(nbytes))
    for number, habit in enumerate(habits):
        # Its rightful work. No byte is what it was the time before: no fill can be equal to both.
        content = bytes(100 * (number % 2) + rng.randint(0, 99) for _ in range(nbytes))
        buffer[:] = content
        returned(buffer)
        stayed &= {at for at in stayed if buffer[at] == content[at]}
        if habit == "keeps a name":
            kept.append(buffer)
        elif habit == "keeps a part":
            kept.append(memoryview(buffer)[: nbytes // 2])
        elif habit.startswith("writes"):
            at = {"writes in the first byte": 0, "writes in the last byte": nbytes - 1}.get(habit)
            place = rng.randrange(nbytes) if at is None else at
            part, second = memoryview(buffer), (place + 1) % nbytes
            if habit == "writes one more and one less":
                part[place], part[second] = (part[place] + 1) % 256, (part[second] - 1) % 256
            elif habit == "writes a 0":
                part[place] = 0
            else:
                bit = 1 << rng.randint(0, 7)
                part[place] ^= bit
                if habit == "writes the same bit twice":
                    part[second] ^= bit
            if habit == "writes later":
                kept.append(part)
            else:
                part.release()
        told.append(_told_by(look, buffer))
    return {"told": told, "a late reader finds old bytes at": sorted(stayed)}


@handed_out
def _told_by(look: Any, buffer: bytearray) -> str:
    try:
        look(buffer)
    except NotImplementedError:  # the untouched stub; it is a RuntimeError as well
        raise
    except RuntimeError:
        return "used after return"
    return "untouched"


def _right_debug(habits: list[str], nbytes: int, seed: int) -> dict[str, Any]:
    told = ["used after return" if "writes" in one else "untouched" for one in habits]
    return {"told": told, "a late reader finds old bytes at": []}


def _misjudged(evidence: Any, right: str) -> list[str]:
    """What the borrowers did of whom the answer says something else than this, which is right."""
    told = zip(evidence.inputs[0], evidence.value["told"], evidence.right["told"], strict=True)
    return [habit for habit, got, truth in told if got != truth == right]


used_after_return = Exercise(
    id="reuse.used_after_return",
    case=_habits,
    expected=_right_debug,
    drive=_drive_debug,
    show=lambda habits, nbytes, seed: (
        f"{nbytes} bytes; after giving back, each borrower in turn: {', '.join(habits)}"
    ),
    minutes=5,
    cases=40,
    stages=(
        Stage("whoever keeps a name", case=lambda rng, size: _habits(rng, size, HABITS[:3])),
        Stage("whoever writes"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("To keep a name is no use: nothing was written, and look raised.",
             when=lambda e: bool(_misjudged(e, "untouched"))),
        Hint("A 0 was written after the return, and nobody was told. Look at every byte by itself, "
             "and fill with a number that is not 0.",
             when=lambda e: {*_misjudged(e, "used after return")} == {"writes a 0"}),
        Hint("A byte or two were written after the return, and nobody was told. Look at every "
             "byte by itself: a sum can stay as it was.",
             when=lambda e: bool(_misjudged(e, "used after return"))),
        Hint("After returned(buffer), the buffer still held old bytes: a late reader would not "
             "notice. Fill all of it.",
             when=lambda e: bool(e.value["a late reader finds old bytes at"])),
        "buffer[:] = bytes([0xA5]) * len(buffer) fills it.",
    ),
    must_fail=(
        "weak detection by reference count",
        "looks at the first byte only",
        "keeps a checksum, and fills nothing",
        "fills, and never looks",
        "raises for whoever keeps a part",
        "fills one byte, and remembers the others",
        "adds all bytes up",
        "xors all bytes",
        "fills with 0",
    ),
)  # fmt: skip
