"""Batches on their way to the device: when the host may write again; an upload that overlaps."""

from typing import Any

import numpy as np

from labkit import cuda
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._upload_steps import first_overwrite, waits_for
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.emulator.queue import Work

NOTEBOOK = "1_fundamentals/7b_overwritten_batch"

Ints = tuple[int, ...]
ITEM = np.dtype(np.int64)
EACH = 4 * ITEM.itemsize
"""Bytes of a batch."""


class WatchedDevice(EmulatorDriver):
    """An emulated device that notes when the host waited for it."""

    def __init__(self) -> None:
        super().__init__(capacity=1 << 20, seed=0)
        self.waits: list[int] = []

    def note(self) -> None:
        """The host waits here: the number of the last work that is queued so far."""
        self.waits.append(self.queue.log[-1].id if self.queue.log else 0)

    def stream_synchronize(self, stream: int) -> None:
        """Note one wait."""
        self.note()
        super().stream_synchronize(stream)

    def event_synchronize(self, event: int) -> None:
        """Note one wait."""
        self.note()
        super().event_synchronize(event)

    def synchronize(self) -> None:
        """Note one wait."""
        self.note()
        super().synchronize()

    def event_query(self, event: int) -> bool:
        """Note one wait: a loop around a query is one."""
        self.note()
        return super().event_query(event)

    def stream_query(self, stream: int) -> bool:
        """Note one wait."""
        self.note()
        return super().stream_query(stream)


class Bench:
    """One upload on one device: two buffers, the batches on the host, a place for each result.

    copy(batch, buffer, stream)   queue the upload of a batch into buffer 0 or 1
    use(batch, buffer, stream)    queue the work that reads the buffer as this batch
    """

    device: WatchedDevice | None = None

    def __init__(self, values: tuple[Ints, ...], seed: int) -> None:
        if Bench.device is None:
            Bench.device = WatchedDevice()
        self.driver = Bench.device
        self.driver.queue.reseed(seed)
        self.driver.queue.log.clear()
        self.driver.waits.clear()
        self.batches = [np.array(batch, ITEM) for batch in values]
        self.memory = [self.driver.malloc(EACH) for _ in range(2 + len(values))]
        for address in self.memory:
            self.driver.memset_async(address, 0, EACH, 0)
        EmulatorDriver.synchronize(self.driver)
        self.copies: dict[int, list[tuple[int, Work]]] = {}
        self.uses: dict[int, list[tuple[int, Work]]] = {}

    def copy(self, batch: int, buffer: int, stream: cuda.Stream) -> None:
        """The upload is queued."""
        source = self.batches[self._one(batch)].ctypes.data
        self.driver.memcpy_async(self._buffer(buffer), source, EACH, self._queue(stream))
        self.copies.setdefault(batch, []).append((buffer, self.driver.queue.log[-1]))

    def use(self, batch: int, buffer: int, stream: cuda.Stream) -> None:
        """The work that reads the buffer is queued."""
        place = self.memory[2 + self._one(batch)]
        self.driver.memcpy_async(place, self._buffer(buffer), EACH, self._queue(stream))
        self.uses.setdefault(batch, []).append((buffer, self.driver.queue.log[-1]))

    def _one(self, batch: int) -> int:
        if not isinstance(batch, int) or not 0 <= batch < len(self.batches):
            raise ValueError(f"batch {batch!r} of {len(self.batches)}")
        return batch

    def _buffer(self, buffer: int) -> int:
        if buffer not in (0, 1):
            raise ValueError(f"there are buffers 0 and 1, not {buffer!r}")
        return self.memory[buffer]

    def _queue(self, stream: Any) -> int:
        if not isinstance(stream, cuda.Stream):
            raise TypeError(f"a stream is a labkit.cuda.Stream, not {stream!r}")
        return stream.handle

    def found(self) -> dict[str, Any]:
        """Everything has run: what came out, and what could have gone wrong in another order."""
        waits = [*self.driver.waits]
        EmulatorDriver.synchronize(self.driver)
        results = []
        for address in self.memory[2:]:
            here = np.zeros(EACH // ITEM.itemsize, ITEM)
            self.driver.memcpy_async(here.ctypes.data, address, EACH, 0)
            EmulatorDriver.stream_synchronize(self.driver, 0)
            results.append(here.tolist())
        return {"results": results, "times the host waited": len(waits), **self._orders(waits)}

    def _orders(self, waits: list[int]) -> dict[str, Any]:
        """From the queue's log: which pairs of work any legal order keeps apart, and which not.

        A wait of the host is taken to be for all that is queued: it is told on its own.
        """
        before: dict[int, set[int]] = {}
        for work in self.driver.queue.log:
            after = [n for n in work.dep_ids if n in before]
            before[work.id] = set(after).union(*(before[n] for n in after))

        def ordered(first: Work, second: Work) -> bool:
            waited = any(first.id <= last < second.id for last in waits)
            return waited or first.id in before[second.id]

        number = range(len(self.batches))
        copies = [pair for n in number for pair in self.copies.get(n, [])]
        early = [
            n
            for n in number
            if any(
                not ordered(c, u)
                for _, c in self.copies.get(n, [])
                for _, u in self.uses.get(n, [])
            )
        ]
        overwritten = sorted(
            {
                n
                for n in number
                for buffer, use in self.uses.get(n, [])
                for other, copy in copies
                if other == buffer and copy.id > use.id and not ordered(use, copy)
            }
        )
        apart = [
            n
            for n in number[:-1]
            if any(
                not ordered(use, copy) and not ordered(copy, use)
                for _, use in self.uses.get(n, [])
                for _, copy in self.copies.get(n + 1, [])
            )
        ]
        return {
            "batches that may be read before they arrived": early,
            "batches that may be overwritten before they were read": overwritten,
            "batches read while the next one arrives": apart,
        }

    def close(self) -> None:
        """Nothing is queued, and the memory is free."""
        EmulatorDriver.synchronize(self.driver)
        for address in self.memory:
            self.driver.free(address)


def _an_upload(rng: Rng, size: int) -> Case:
    """Batches that differ from each other and from zero, and an order of the device's queues."""
    number = rng.randint(1, 3 + size)
    values = tuple(tuple(rng.randint(1, 10**6) for _ in range(4)) for _ in range(number))
    truth = {
        "results": [list(batch) for batch in values],
        "times the host waited": 0,
        "batches that may be read before they arrived": [],
        "batches that may be overwritten before they were read": [],
        "batches read while the next one arrives": list(range(number - 1)),
    }
    return Case((values, rng.randint(0, 10**6)), truth)


def _drive_upload(answer: Any, values: tuple[Ints, ...], seed: int) -> Any:
    bench = Bench(values, seed)
    with cuda.use(bench.driver):
        try:
            answer(len(values), bench.copy, bench.use, cuda.Stream(), cuda.Stream())
            return bench.found()
        finally:
            bench.close()


def _upload_in_words(values: tuple[Ints, ...], seed: int) -> str:
    batches = "1 batch" if len(values) == 1 else f"{len(values)} batches"
    return f"{batches}, the device's queues in order {seed}"


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """What was found, as a timeline of the batches: the pairs that nothing orders, in red."""
    from labkit import show

    if not isinstance(got, dict):
        return None
    number = len(case.inputs[0])
    spans = [
        {"lane": lane, "name": f"{what} {n}", "start": n + late, "end": n + late + 0.85}
        for n in range(number)
        for late, (lane, what) in enumerate((("copies", "copy"), ("uses", "use")))
    ]
    spans.sort(key=lambda span: str(span["lane"]))
    early = got["batches that may be read before they arrived"]
    torn = got["batches that may be overwritten before they were read"]
    races = [(f"copy {n}", f"use {n}", f"use {n} may come first") for n in early]
    races += [
        (
            f"use {n}",
            f"copy {min(n + 2, number - 1)}",
            f"batch {n} may be overwritten before its use",
        )
        for n in torn
    ]
    return show.timeline(spans, races=races, title="what nothing orders") if races else None


def _finding(name: str) -> Any:
    return lambda e: isinstance(e.value, dict) and e.value[name] != e.right[name]


safe_async_copy = Exercise(
    id="overwritten_batch.safe_async_copy",
    rules=("labkit.cuda's Event and Stream, and nothing that waits on the host",),
    case=_an_upload,
    drive=_drive_upload,
    show=_upload_in_words,
    picture=_drawn,
    stages=(
        Stage("one batch", only=lambda values, seed: len(values) == 1),
        Stage("two batches", only=lambda values, seed: len(values) == 2),
        Stage("a buffer again", only=lambda values, seed: len(values) == 3),
        Stage("together"),
    ),
    cases=64,
    sizes=6,
    minutes=15,
    hints=(
        Hint(
            "The host waited, and meanwhile it queued nothing. stream.wait_event(event) makes a "
            "stream wait instead: the call returns at once.",
            when=_finding("times the host waited"),
        ),
        Hint(
            "With {input}, a use may run before its batch has arrived. Record an event on the copy "
            "stream, behind the copy, and let the use stream wait for it.",
            when=_finding("batches that may be read before they arrived"),
        ),
        Hint(
            "With {input}, there may be new data in a buffer whose old batch nobody has read yet. "
            "Who says that it was used? An event behind the use, and the copy stream waits for it.",
            when=_finding("batches that may be overwritten before they were read"),
        ),
        Hint(
            "The results are right, and no copy may ever run beside a use: you made them wait for "
            "each other one by one. Batch n + 1 has a buffer of its own; only n + 2 has to wait.",
            when=_finding("batches read while the next one arrives"),
        ),
        "One event per buffer and direction: 'arrived' and 'used'. Four in all.",
        "event.record() without a stream records on the current stream, which is neither of yours.",
    ),
    must_fail=(
        "synchronises after each copy (no overlap)",
        "waits on the host",
        "waits on the wrong stream",
        "forgets to protect the reused buffer",
        "event recorded before the copy",
        "is right on the default stream or device and wrong on another one",
        "is right in forward thread and queue order only and fails in a reversed or shuffled order",
        FIRST,
    ),
)

EXERCISES = (first_overwrite, waits_for, safe_async_copy)
