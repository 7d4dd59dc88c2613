"""Strides used freely, windows without copies, and an upload that overlaps and never tears."""

from typing import Any

import numpy as np
import torch

from labkit import cuda
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Raises, Rng
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.emulator.queue import Work

NOTEBOOK = "1_fundamentals/7_strides_views_transfers"

Ints = tuple[int, ...]
FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"
SLOW = "is right on small cases and exceeds the size limit on large ones"
SLOW += " (quadratic, recursive or waiting for ever)"
SQUARE = "is right only for square, even or contiguous shapes"
CHANGES = "returns the right value but changes one of its inputs"


# --- as_strided_guard


def _a_layout(rng: Rng, size: int) -> tuple[Ints, Ints, int, int]:
    kind = rng.random()
    if size > 3 and kind < 0.12:
        sizes, strides = _large(rng)
    elif kind < 0.4:
        sizes, strides = _dense_with_gaps(rng, size)
    else:
        rank = rng.randint(0, min(4, 1 + size // 2))
        sizes = [rng.choice((1, 1, 2, 2, 3, 4, 5)) for _ in range(rank)]
        strides = [rng.choice((0, 1, 1, 2, 3, 4, 5, 6, 7, 9)) for _ in range(rank)]
    if sizes and rng.chance(0.07):
        sizes[rng.randint(0, len(sizes) - 1)] = 0
    order = rng.sample(range(len(sizes)), len(sizes))
    offset = rng.choice((0, 0, rng.randint(0, 9)))
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n)
    length = max(0, offset + reach + 1 + rng.choice((0, 0, -1, 1, 5, -offset, rng.randint(-9, 9))))
    return tuple(sizes[d] for d in order), tuple(strides[d] for d in order), offset, length


def _dense_with_gaps(rng: Rng, size: int) -> tuple[list[int], list[int]]:
    """No two elements meet; sometimes one axis is shortened or a stride halved, so they may."""
    sizes: list[int] = []
    strides: list[int] = []
    step = rng.choice((1, 1, 2, 3))
    for _ in range(rng.randint(1, 2 + size // 3)):
        length = rng.choice((1, 2, 3, 4))
        sizes.append(length)
        strides.append(rng.choice((0, 7, 100)) if length == 1 else step)
        step = step * length + rng.choice((0, 0, 1))
    if rng.chance(0.4):
        at = rng.randint(0, len(sizes) - 1)
        strides[at] = max(1, strides[at] - rng.choice((1, strides[at] // 2)))
    return sizes, strides


def _large(rng: Rng) -> tuple[list[int], list[int]]:
    """Large in one way or another; where only enumeration decides, at most 20,000 elements.

    No axis alone is so long that writing it out would fill the memory of a laptop.
    """
    n = rng.randint(5_000, 9_000)
    return rng.choice(
        (
            ([2**20, 2**20], [2**20, 1]),
            ([2**20, 2**20], [2**20 - 1, 1]),
            ([2**20, 2**20, 5], [1, 2**20, 2**40]),
            ([2**20, 2**20], [0, 1]),
            ([2**20, 2**20], [1, 0]),
            ([n, 2], [2, 2 * n - 3]),
            ([n, 2], [2, 2 * n - 4]),
            ([2, n], [3, 6]),
        )
    )


def _inside_and_overlap(sizes: Ints, strides: Ints, offset: int, length: int) -> tuple[bool, bool]:
    if 0 in sizes:
        return True, False
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    return offset + reach < length, _meets(sizes, strides, reach)


def _meets(sizes: Ints, strides: Ints, reach: int) -> bool:
    """Whether two elements lie in one place: three quick tests, then all places."""
    axes = sorted((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1)
    below, numel, apart = 0, 1, True
    for stride, size in axes:
        apart = apart and stride > below
        below += (size - 1) * stride
        numel *= size
    if apart or numel > reach + 1:
        return not apart
    places = np.array([0])
    for stride, size in axes:
        places = np.add.outer(places, np.arange(size) * stride).ravel()
    return len(np.unique(places)) < len(places)


def _fewer_axes(sizes: Ints, strides: Ints, offset: int, length: int) -> Any:
    for gone in range(len(sizes)):
        yield sizes[:gone] + sizes[gone + 1 :], strides[:gone] + strides[gone + 1 :], offset, length
    if offset:
        yield sizes, strides, 0, length


def _part(index: int) -> Any:
    """True where that one of the two answers is wrong."""
    return lambda e: isinstance(e.value, tuple | list) and e.value[index] != e.right[index]


as_strided_guard = Exercise(
    id="strides_views_transfers.as_strided_guard",
    statement=(
        "Write as_strided_guard(sizes, strides, offset, length). All are in elements and none is "
        "negative; length is that of the storage. Return (inside, overlap): inside is True when "
        "every element lies in the storage, overlap is True when any two elements lie in one "
        "place. Both exact. A view may have 2**40 elements and more; where neither counting them "
        "nor sorting the strides settles it, there are at most 20,000."
    ),
    rules=("Python and NumPy; no torch, no labkit",),
    case=_a_layout,
    expected=_inside_and_overlap,
    smaller=_fewer_axes,
    cases=3000,
    seconds=2.0,
    sizes=8,
    minutes=20,
    difficulty=3,
    banned=("torch.*", "labkit.*"),
    hints=(
        Hint(
            "An empty tensor touches nothing: it lies inside any storage, wherever it begins, and "
            "no two of its elements meet.",
            when=lambda e: 0 in e.inputs[0],
        ),
        Hint(
            "Off by one stride at the end? The last element of an axis of size n is n - 1 strides "
            "away, and the storage's last place is length - 1.",
            when=_part(0),
        ),
        Hint(
            "An axis of size 1 has no second element that could meet the first, whatever its "
            "stride.",
            when=lambda e: _part(1)(e) and 1 in e.inputs[0],
        ),
        "Too many elements to visit? With more elements than places between the first and the "
        "last, two must meet; if every stride is larger than all that the smaller ones reach "
        "together, none do.",
        Hint(
            "Strides 2 and 3 interleave: 0 2 4 and 3 5 7 never meet. Sorting the strides is a "
            "quick yes, and says nothing when it fails. Enumerate {input}.",
            when=_part(1),
        ),
        "Two questions: how far is the last element, and can two indices give one sum?",
    ),
    must_fail=(
        "ignores offset",
        "multiplies sizes by strides without minus one",
        "zero-size reported out of bounds",
        "any stride 0 is overlap even for size 1",
        "sorted-stride test only (misses interleaved overlap)",
        FIRST,
        LITERAL,
        SLOW,
    ),
)


# --- sliding_windows


def _an_image(rng: Rng, size: int) -> tuple[torch.Tensor, int, int, int]:
    window, step, dilation = rng.randint(1, 3), rng.randint(1, 3), rng.choice((1, 1, 2, 3))
    extent = dilation * (window - 1) + 1
    height, width = (max(0, extent + rng.randint(-1, 1 + 2 * size)) for _ in range(2))
    dtype = rng.choice((torch.float32, torch.uint8, torch.int64))
    image = _odd_layout(rng, height, width, dtype)
    return image, window, step, dilation


def _odd_layout(rng: Rng, height: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """An image of these sizes: as it is, transposed, cut out of a larger one, or both."""
    kind = rng.randint(0, 3)
    if kind == 0:
        return rng.tensor((height, width), dtype)
    if kind == 1:
        return rng.tensor((width, height), dtype).t()
    if kind == 2:
        return rng.tensor((height + 3, 2 * width + 2), dtype)[2 : height + 2, 1 : 2 * width + 1 : 2]
    return rng.tensor((width + 1, height + 2, 3), dtype)[1:, 1 : height + 1, 1].t()


def _windows(image: torch.Tensor, window: int, step: int, dilation: int) -> Any:
    """By a loop over all windows, element by element."""
    height, width = image.shape
    extent = dilation * (window - 1) + 1
    if extent > min(height, width):
        return Raises(ValueError)
    rows, columns = range(0, height - extent + 1, step), range(0, width - extent + 1, step)
    picked = [
        image[top + dilation * i, left + dilation * j]
        for top in rows
        for left in columns
        for i in range(window)
        for j in range(window)
    ]
    stacked = torch.stack(picked).reshape(len(rows), len(columns), window, window)
    return {"windows": stacked, "a view of the image's storage": True}


def _drive_windows(answer: Any, image: torch.Tensor, *numbers: int) -> Any:
    result = answer(image, *numbers)
    shares = isinstance(result, torch.Tensor) and (
        result.untyped_storage().data_ptr() == image.untyped_storage().data_ptr()
    )
    windows = result.clone() if isinstance(result, torch.Tensor) else result
    return {"windows": windows, "a view of the image's storage": shares}


def _is_dict(evidence: Evidence) -> bool:
    return isinstance(evidence.value, dict)


sliding_windows = Exercise(
    id="strides_views_transfers.sliding_windows",
    statement=(
        "Write sliding_windows(image, window, step, dilation) for a matrix of any strides. Return "
        "all square windows as a view, sizes (rows, columns, window, window): [r, c, i, j] is "
        "image[r * step + i * dilation, c * step + j * dilation]. As many windows as fit whole. "
        "No copy, and the image stays as it is. ValueError when not even one fits."
    ),
    rules=("any torch call",),
    case=_an_image,
    expected=_windows,
    drive=_drive_windows,
    cases=200,
    sizes=5,
    minutes=15,
    difficulty=2,
    hints=(
        Hint(
            "No window fits: it reaches over dilation * (window - 1) + 1 places. That is a "
            "ValueError with the numbers in it, not a tensor of negative size.",
            when=lambda e: isinstance(e.right, Raises),
        ),
        Hint(
            "The storage differs: somewhere you copied (clone, contiguous, reshape, stack, or an "
            "index that is a tensor).",
            when=lambda e: _is_dict(e) and not e.value["a view of the image's storage"],
        ),
        Hint(
            "The image has strides of its own, and perhaps an offset. Ask it: image.stride().",
            when=lambda e: not e.inputs[0].is_contiguous(),
        ),
        Hint(
            "Inside a window one step is dilation rows or columns; between windows it is step.",
            when=lambda e: e.inputs[3] > 1,
        ),
        "Two new axes reuse the two old strides.",
        "sizes (rows, columns, k, k), strides (step * sh, step * sw, dilation * sh, dilation * sw)",
    ),
    must_fail=(
        "unfold then clone",
        "ignores dilation",
        "wrong for non-contiguous input",
        "transposed window axes",
        CHANGES,
        FIRST,
        SQUARE,
    ),
)


# --- safe_async_copy

ITEM = np.dtype(np.int64)
EACH = 4 * ITEM.itemsize
"""Bytes of a batch."""


class WatchedDevice(EmulatorDriver):
    """An emulated device that counts how often the host waited for it."""

    def __init__(self) -> None:
        super().__init__(capacity=1 << 20, seed=0)
        self.waits = 0

    def stream_synchronize(self, stream: int) -> None:
        """Count one wait."""
        self.waits += 1
        super().stream_synchronize(stream)

    def event_synchronize(self, event: int) -> None:
        """Count one wait."""
        self.waits += 1
        super().event_synchronize(event)

    def synchronize(self) -> None:
        """Count one wait."""
        self.waits += 1
        super().synchronize()

    def event_query(self, event: int) -> bool:
        """Count one wait: a loop around a query is one."""
        self.waits += 1
        return super().event_query(event)

    def stream_query(self, stream: int) -> bool:
        """Count one wait."""
        self.waits += 1
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
        self.driver.waits = 0
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
        waits = self.driver.waits
        EmulatorDriver.synchronize(self.driver)
        results = []
        for address in self.memory[2:]:
            here = np.zeros(EACH // ITEM.itemsize, ITEM)
            self.driver.memcpy_async(here.ctypes.data, address, EACH, 0)
            EmulatorDriver.stream_synchronize(self.driver, 0)
            results.append(here.tolist())
        return {"results": results, "times the host waited": waits, **self._orders()}

    def _orders(self) -> dict[str, Any]:
        """From the queue's log: which pairs of work any legal order keeps apart, and which not."""
        before: dict[int, set[int]] = {}
        for work in self.driver.queue.log:
            after = [n for n in work.dep_ids if n in before]
            before[work.id] = set(after).union(*(before[n] for n in after))

        def ordered(first: Work, second: Work) -> bool:
            return first.id in before[second.id]

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
    return f"{len(values)} batches, the device's queues in order {seed}"


def _finding(name: str) -> Any:
    return lambda e: isinstance(e.value, dict) and e.value[name] != e.right[name]


safe_async_copy = Exercise(
    id="strides_views_transfers.safe_async_copy",
    statement=(
        "Write upload(number, copy, use, copy_stream, use_stream). There are `number` batches on "
        "the host and two buffers, 0 and 1, on the device. copy(batch, buffer, stream) queues the "
        "upload of a batch, use(batch, buffer, stream) queues the work that reads it. Queue each "
        "batch's copy on copy_stream and its use on use_stream, once each, so that in every legal "
        "order of the queues a use reads its own batch, and so that the copy of each batch may run "
        "while the one before is used. The host never waits."
    ),
    rules=("labkit.cuda's Event and Stream, and nothing that waits on the host",),
    case=_an_upload,
    drive=_drive_upload,
    show=_upload_in_words,
    cases=64,
    sizes=6,
    minutes=20,
    difficulty=3,
    hints=(
        Hint(
            "The host waited, and meanwhile it queued nothing. stream.wait_event(event) makes a "
            "stream wait instead: the call returns at once.",
            when=_finding("times the host waited"),
        ),
        Hint(
            "On {input} a use may run before its batch has arrived. Record an event on the copy "
            "stream, behind the copy, and let the use stream wait for it.",
            when=_finding("batches that may be read before they arrived"),
        ),
        Hint(
            "On {input} there may be new data in a buffer whose old batch nobody has read yet. Who "
            "says that it was consumed? An event behind the use, and the copy stream waits for it.",
            when=_finding("batches that may be overwritten before they were read"),
        ),
        Hint(
            "The results are right, and no copy may ever run beside a use: you made them wait for "
            "each other one by one. Batch n + 1 has a buffer of its own; only n + 2 has to wait.",
            when=_finding("batches read while the next one arrives"),
        ),
        "One event per buffer and direction: 'arrived' and 'consumed'. Four in all.",
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

EXERCISES = (as_strided_guard, sliding_windows, safe_async_copy)
