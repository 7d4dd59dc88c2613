"""Timers asked about blocks of a program on a simulated clock."""

import json
import statistics
from contextlib import contextmanager, suppress
from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.pipeline.profiling.queued_device import Event, QueuedDevice

Step = tuple[Any, ...]


class Waits(QueuedDevice):
    """A device that counts how often the host was told to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def synchronize(self) -> None:
        """The host waits until the queue is empty."""
        self.waits += 1
        super().synchronize()


class Stopped(Exception):
    """What a block of the program raises."""


class Interrupted(BaseException):
    """As when somebody presses Ctrl-C in a block: no Exception."""


RAISED = {"raise": Stopped, "interrupt": Interrupted}


def _drive(answer: Any, program: list[Step]) -> Any:
    """Every number that came out, what was raised and lost, and the waits inside blocks."""
    device = Waits()
    timers, opened = answer(device), {}
    swallowed = 0
    early = list[Any]()

    def numbers() -> Any:  # as they are written to a file; 3 and 3.0 are the same
        return json.loads(json.dumps(timers.stats(), sort_keys=True), parse_int=float)

    for step, *rest in program:
        if step == "enter":
            opened[rest[0]] = timers(rest[1])
            opened[rest[0]].__enter__()
        elif step == "leave":
            opened.pop(rest[0]).__exit__(None, None, None)
        elif step in RAISED:
            error = RAISED[step]("in a block")
            with suppress(Stopped, Interrupted):
                swallowed += bool(opened.pop(rest[0]).__exit__(type(error), error, None))
        elif step == "stats":
            device.synchronize()
            waited = device.waits
            early.append(numbers())
            device.waits = waited - 1
        elif step == "host":
            device.host("work", rest[0])
        else:
            device.launch("kernel", rest[0])
    waits = device.waits
    stats, again = (numbers() for _ in range(2))
    return {"asked between": early, "stats": stats, "asked twice": again,
            "waits in blocks": waits, "swallowed": swallowed}  # fmt: skip


class _Timers:
    """What is right."""

    def __init__(self, device: QueuedDevice) -> None:
        self._device, self._blocks = device, list[tuple[str, float, Event, Event]]()

    @contextmanager
    def __call__(self, name: str) -> Any:
        begin, start = self._device.now(), self._device.event()
        try:
            yield
        finally:
            taken = self._device.now() - begin
            self._blocks.append((name, taken, start, self._device.event()))

    def stats(self) -> dict[str, dict[str, float]]:
        self._device.synchronize()
        found = {}
        for name in {block[0] for block in self._blocks}:
            mine = [block for block in self._blocks if block[0] == name]
            host = sorted(block[1] for block in mine)
            found[name] = {
                "count": len(mine),
                "mean": statistics.mean(host),
                "median": statistics.median(host),
                "p95": host[-(-95 * len(host) // 100) - 1],
                "device": statistics.mean(start.elapsed_time(end) for *_, start, end in mine),
            }
        return found


def _a_program(
    rng: Rng, size: int, kernels: bool = True, nested: bool = True, overlap: bool = True,
    raises: bool = True, between: bool = True,
) -> tuple[list[Step]]:  # fmt: skip
    """Blocks of up to three names; of one name in the larger cases, more than 20 of them."""
    program, opened = list[Step](), list[int]()
    names = ("decode", "network", "encode")[: 1 if size > 5 and rng.chance(0.5) else 3]
    count = 4 + 6 * size if len(names) > 1 else 60
    for number in range(count):
        if between and number == count // 2:
            program.append(("stats",))
        program.append(("host", rng.randint(1, 400)))
        if kernels and rng.chance(0.6):
            program.append(("kernel", rng.randint(50, 3000)))
        if opened and (len(opened) > 2 or not nested or rng.chance(0.5)):
            at = rng.randrange(len(opened)) if overlap else -1
            step = rng.choice(list(RAISED)) if raises and rng.chance(0.25) else "leave"
            program.append((step, opened.pop(at)))
        else:
            program.append(("enter", number, rng.choice(names)))
            opened.append(number)
    program += [("leave", number) for number in reversed(opened)]
    return (program,)


def _told(program: list[Step]) -> str:
    words = [" ".join(map(str, step)) for step in program[:24]]
    return "; ".join(words) + (" ..." if len(program) > 24 else "")


def _differs(evidence: Any, column: str) -> bool:
    got, right = evidence.value["stats"], evidence.right["stats"]
    return any(abs(got[name][column] - right[name][column]) > 1e-6 for name in right)


timer_stats = Exercise(
    id="profiling.timer_stats",
    case=_a_program,
    drive=_drive,
    expected=lambda program: _drive(_Timers, program),
    show=_told,
    minutes=15,
    cases=40,
    tolerance=1e-9,
    stages=(
        Stage("host", case=lambda rng, size: (
            _a_program(rng, size, False, False, False, False, False))),
        Stage("device", case=lambda rng, size: (
            _a_program(rng, size, True, False, False, False, False))),
        Stage("nested", case=lambda rng, size: (
            _a_program(rng, size, True, True, False, False, False))),
        Stage("errors", case=lambda rng, size: (
            _a_program(rng, size, overlap=False, between=False))),
        Stage("overlapping", case=lambda rng, size: (
            _a_program(rng, size, between=False)), cases=20),
        Stage("asked between"),
    ),
    rules=("statistics and contextlib may be used: no torch, no labkit",),
    banned=("torch.*", "labkit.course.*", "labkit.pipeline.timer"),
    hints=(
        Hint("The device has not come to this event yet. Keep both events, and ask for the time "
             "between them in `stats`, behind one synchronize.",
             when=lambda e: e.kind == "raised" and "has not come to" in e.got),
        Hint("JSON knows no other keys than text, and numbers: {got}",
             when=lambda e: e.kind == "raised" and "JSON" in e.got),
        Hint("A block made the host wait. Synchronize in `stats` only.",
             when=lambda e: e.value["waits in blocks"] > 0),
        Hint("An error went into a block and did not come out of it.",
             when=lambda e: e.value["swallowed"] > 0),
        Hint("A block that raises is left, too, whatever it raises: put what follows `yield` into "
             "a `finally`.",
             when=lambda e: e.stage == "errors" and (set(e.value["stats"]) < set(e.right["stats"])
                                                     or _differs(e, "count"))),
        Hint("Each block keeps its own beginning, in a local variable: another block may begin and "
             "end before this one ends.", when=lambda e: e.stage in ("nested", "overlapping")
             and not _differs(e, "count")),
        Hint("`stats` was asked, more blocks ended, and it was asked again. Each time it tells of "
             "all blocks that have ended by then: compute it anew, and forget no row.",
             stage="asked between"),
        Hint("The second call of `stats` gave other numbers than the first.",
             when=lambda e: e.value["stats"] == e.right["stats"]
             and e.value["asked twice"] != e.right["asked twice"]),
        Hint("`device` is the mean of elapsed_time, from a block's first event to its second.",
             when=lambda e: _differs(e, "device") and not _differs(e, "mean")),
        "Keep one row for each block that was left: its name, the host's time, both events.",
        "now() is the host's clock. p95 is the smallest time such that at least 95 % of the "
        "name's times are not longer.",
    ),
    must_fail=(
        "another clock",
        "host time for device work",
        "mean of means",
        "lost on exception",
        "swallows the error",
        "waits in every block",
        "one beginning for all blocks",
        "the last to begin is the first to end",
        "asks an event at once",
        "gives numbers once only",
        "between two times",
        "the longest in place of p95",
        "gives the first numbers for ever",
        "an error that is no Exception",
    ),
)  # fmt: skip
