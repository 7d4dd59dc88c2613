"""A loader that copies ahead, on a device that notes what is queued and which memory is reused."""

import weakref
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.cuda.happens_before import accesses, races

COPY, WORK = "copy", "work"


class OnDevice:
    """A tensor on the device, in a place of its memory."""

    def __init__(self, name: str, place: int) -> None:
        self.name, self.place, self.recorded = name, place, [False]

    def __repr__(self) -> str:
        return f"{self.name} on the device"


class NotingDevice:
    """Two streams, *copy* and *work*, and an allocator: what they are told is noted.

    As with PyTorch's, the memory of a tensor is free once nobody holds the tensor; the next copy
    then takes it, unless `record_stream` has said that *work* still reads there.
    """

    def __init__(self) -> None:
        self.program: list[tuple[Any, ...]] = []
        self.free: list[int] = []
        self.places = self.events = 0

    def copy(self, tensor: str) -> OnDevice:
        """The tensor on the device; its copy is queued on the stream *copy*."""
        if not isinstance(tensor, str):
            raise TypeError(f"copy takes one tensor of a batch, got {tensor!r}")
        if self.free:
            place = self.free.pop()
        else:
            place, self.places = self.places, self.places + 1
        self.program.append(("run", COPY, (), (place,)))
        there = OnDevice(tensor, place)
        weakref.finalize(there, _dropped, self.free, place, there.recorded)
        return there

    def record(self) -> int:
        """An event behind all that is queued on the stream *copy*."""
        self.events += 1
        self.program.append(("record", COPY, self.events))
        return self.events

    def wait(self, event: int) -> None:
        """What is queued on the stream *work* from now on runs behind the event."""
        self.program.append(("wait", WORK, event))

    def record_stream(self, there: OnDevice) -> None:
        """The memory stays until *work* has done what it does with it."""
        there.recorded[0] = True

    def used(self, there: OnDevice) -> None:
        """The consumer's work is queued."""
        self.program.append(("run", WORK, (there.place,), ()))


@handed_out
def _dropped(free: list[int], place: int, recorded: list[bool]) -> None:
    if not recorded[0]:
        free.append(place)


def _drive(answer: Any, sizes: list[int], depth: int, breaks_at: int | None) -> dict[str, Any]:
    """What came, how it ended, how much had been copied when each batch came, what was queued."""
    device = NotingDevice()
    begun, came, ahead, copies = 0, [], [], []

    class Loader:
        def __iter__(self) -> Any:
            nonlocal begun
            begun += 1
            for batch, size in enumerate(sizes):
                if batch == breaks_at:
                    raise OSError("the disk is gone")
                yield [f"{batch}.{n}" for n in range(size)]

    ended = "in order"
    try:
        for batch in answer(Loader(), device, depth):
            copied = sum(step[:2] == ("run", COPY) for step in device.program)
            ahead.append(copied)
            came.append([there.name for there in batch])
            for there in batch:
                device.used(there)
            copies.append(copied)
            there = batch = None
    except OSError:
        ended = "with the loader's error"
    return {"batches": came, "ended": ended, "tensors copied when each came": ahead,
            "loader begun": begun, "program": device.program}  # fmt: skip


def _judge(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "prefetcher(loader, device, depth) yields lists of tensors on the device"
    sizes, depth, breaks_at = case.inputs
    count = len(sizes) if breaks_at is None else breaks_at
    right = [[f"{batch}.{n}" for n in range(sizes[batch])] for batch in range(count)]
    ended = "in order" if breaks_at is None else "with the loader's error"
    if got["ended"] != ended:
        return Wrong("how it ends", ended)
    if got["loader begun"] != 1:
        return Wrong("iter(loader) is asked once: another one may shuffle differently", 1)
    if got["batches"] != right:
        return Wrong("every batch, once, in order", right)
    copied = [sum(sizes[: min(at + 1 + depth, count)]) for at in range(count)]
    if got["tensors copied when each came"] != copied:
        return Wrong("how many tensors had been copied when each batch came", copied)
    if wrong := races(got["program"]):
        return Wrong("nothing races, in any order of the streams: " + _said(got["program"], wrong))
    if too_much := _waits_too_long(got["program"], sizes):
        return Wrong(f"work waits for its own batch only; {too_much}")
    return None


def _said(program: list[tuple[Any, ...]], found: list[tuple[int, int]]) -> str:
    first, second = (program[at] for at in found[0])
    if first[1] == WORK:
        return f"a copy takes place {second[3][0]} while work may still read there"
    return f"work reads place {second[2][0]} while its copy may still be under way"


def _waits_too_long(program: list[tuple[Any, ...]], sizes: list[int]) -> str:
    own, batch, left = 0, -1, 0
    for one in accesses(program):
        if one.queue != WORK:
            continue
        while left == 0:
            batch += 1
            left = sizes[batch]
            own += left
        left -= 1
        if one.clock.get(COPY, 0) > own:
            return f"for batch {batch} it waits for a later one, too"
    return ""


def _a_loader(rng: Rng, size: int, error: float = 0.3) -> tuple[list[int], int, int | None]:
    sizes = [rng.randint(1, 3) for _ in range(rng.randint(0, 2 + 2 * size))]
    breaks_at = rng.randint(0, len(sizes) - 1) if sizes and rng.chance(error) else None
    return sizes, rng.randint(1, 3 + size), breaks_at


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """What the answer queued on the two streams, with its races."""
    from labkit import show

    if not isinstance(got, dict) or len(got["program"]) > 60:
        return None
    runs = [step for step in got["program"] if step[0] == "run"]
    names = [f"copy to {s[3][0]}" if s[1] == COPY else f"read {s[2][0]}" for s in runs]
    return show.streams(got["program"], names=names, title="what you queued; numbers are places")


prefetcher = Exercise(
    id="pipeline.prefetcher",
    case=_a_loader,
    judge=_judge,
    drive=_drive,
    rung="boss",
    minutes=25,
    cases=60,
    picture=_drawn,
    stages=(
        Stage("one tensor, depth 1", case=lambda rng, size: ([1] * (size + 1), 1, None), cases=8),
        Stage("lists, any depth", case=lambda rng, size: _a_loader(rng, size, 0)),
        Stage("errors too"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The loader was begun {got} times.", when=lambda e: "asked once" in e.property),
        Hint(
            "Batches are missing or come twice. Keep what you have copied in a deque, and hand it "
            "out from the left; when the loader has ended, hand out the rest.",
            when=lambda e: "every batch" in e.property,
        ),
        Hint(
            "The work may begin before its batch has come: wait for an event that was recorded "
            "behind its copies.",
            when=lambda e: "its copy may still" in e.property,
        ),
        Hint(
            "A batch is dropped as soon as it has been used, and the next copy takes its memory. "
            "Who still reads there? record_stream, for every tensor of the batch.",
            when=lambda e: "while work may still" in e.property,
        ),
        Hint(
            "Record the event right behind the copies of its batch, not when you hand it out.",
            when=lambda e: "its own batch only" in e.property,
        ),
        Hint(
            "The loader raised. The batches that came before its error come out first.",
            when=lambda e: e.inputs[2] is not None,
        ),
        Hint(
            "When batch i comes, `depth` more have been copied, or all there are.",
            when=lambda e: "how many tensors" in e.property,
        ),
        "Append (batch on the device, event); when there are more than depth, hand one out.",
    ),
    must_fail=(
        "gives the first batch twice",
        "loses the last",
        "does not record the stream",
        "does not wait",
        "waits for everything that is queued",
        "begins the loader twice",
        "swallows the exception",
        "loses what waits when the loader raises",
        "copies one ahead whatever the depth",
        "records the first tensor of a batch only",
    ),
)
