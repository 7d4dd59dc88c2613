"""Memory pools: the missing record_stream, a pool repaired, and one cleared while it is busy."""

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Wrong
from labkit.course.stopwatch import ends
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.memory_calls import MemoryCalls
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.sizes import KIB, MIB

NOTEBOOK = "4_vision_low_level/2_memory_pool"

FIRST = "remembers the answer of the first random case and returns it for all later cases"
CATCHES = "catches every exception and returns a default"
ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"
SLOW = (
    "is right on small cases and exceeds the size limit on large ones (quadratic, recursive or "
    "waiting for ever)"
)


class Emulated:
    """One emulated device with three streams, shared by every case: nothing is launched on it."""

    device: EmulatorDriver | None = None
    streams: tuple[int, ...] = ()

    def __init__(self, seed: int) -> None:
        if Emulated.device is None:
            Emulated.device = EmulatorDriver(capacity=1 << 30)
            Emulated.streams = tuple(
                Emulated.device.stream_create(non_blocking=True) for _ in range(3)
            )
        self.driver = Emulated.device
        self.driver.synchronize()
        self.driver.queue.reseed(seed)
        self.calls = MemoryCalls(self.driver)

    def after(self, stream: int, earlier: int) -> None:
        """What is queued on `stream` from now on runs after what `earlier` has now."""
        event = self.driver.event_create()
        self.driver.event_record(event, earlier)
        self.driver.stream_wait_event(stream, event)
        self.driver.event_destroy(event)


# --- record_the_stream


class Lab(Emulated):
    """What a pipeline of `record_the_stream` may use. Sizes are bytes, addresses ints."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.main, self.side = Emulated.streams[:2]
        self._allocator = CachingAllocator(self.calls)
        self._kept: list[Any] = []
        self.host_waits = self.main_waits = self.most_on_main = 0

    def malloc(self, nbytes: int, stream: int) -> int:
        """A block for work on the stream, from the caching allocator."""
        address = self._allocator.malloc(nbytes, stream)
        on_main = [b for b in self._allocator.live_blocks() if b.segment.stream == self.main]
        self.most_on_main = max(self.most_on_main, len(on_main))
        return address

    def free(self, address: int) -> None:
        """Give the block back."""
        self._allocator.free(address)

    def record_stream(self, address: int, stream: int) -> None:
        """The stream uses the block, which is not free before it is done."""
        self._allocator.record_stream(address, stream)

    def wait_stream(self, stream: int, earlier: int) -> None:
        """The stream waits for what is queued on the earlier one now; the host does not."""
        self.main_waits += stream == self.main
        self.after(stream, earlier)

    def synchronize(self) -> None:
        """The host waits for everything."""
        self.host_waits += 1
        self.driver.synchronize()

    def upload(self, address: int, image: bytes, stream: int) -> None:
        """Queue: the block holds the image."""
        buffer = ctypes.create_string_buffer(image, len(image))
        self._kept.append(buffer)
        self.driver.memcpy_async(address, ctypes.addressof(buffer), len(image), stream, buffer)

    def copy(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        """Queue: the source's bytes are in the destination."""
        self.driver.memcpy_async(destination, source, nbytes, stream)

    def finish(self, addresses: list[int], nbytes: int) -> list[bytes]:
        """What the results hold in the end; everything goes back."""
        self.driver.synchronize()
        found = [ctypes.string_at(address, nbytes) for address in addresses]
        live = {block.address for block in self._allocator.live_blocks()}
        self.left = len(live - set(addresses))
        for address in live:
            self._allocator.free(address)
        self._allocator.empty_cache()
        return found

    def drop(self) -> None:
        """After an error: nothing stays queued or reserved."""
        self.driver.synchronize()
        for block in self._allocator.live_blocks():
            self._allocator.free(block.address)
        self._allocator.empty_cache()


def _images(rng: Rng, size: int) -> tuple[Any, ...]:
    nbytes = rng.choice((16, 64, 600, 4096))
    images = [bytes([10 * number + 1]) * nbytes for number in range(2 + size // 2)]
    return images, tuple(rng.getrandbits(30) for _ in range(32))


def _drive_images(answer: Any, images: list[bytes], seeds: tuple[int, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"wrong images": [], "host waits": 0, "waits of the main stream": 0}
    found |= {"most blocks on the main stream": 0, "blocks never freed": 0}
    for seed in seeds:
        lab = Lab(seed)
        try:
            results = answer(lab, images)
            if not isinstance(results, list) or len(results) != len(images):
                raise TypeError(f"pipeline returns a list of {len(images)} addresses")
            pixels = lab.finish(results, len(images[0]))
        except BaseException:
            lab.drop()
            raise
        found["host waits"] += lab.host_waits
        found["waits of the main stream"] += lab.main_waits
        found["most blocks on the main stream"] = max(
            found["most blocks on the main stream"], lab.most_on_main
        )
        found["blocks never freed"] += lab.left
        wrong = [n for n, image in enumerate(images) if pixels[n] != image]
        if wrong:
            found["wrong images"].append(f"queue seed {seed}: {wrong}")
    return found


def _judge_images(case: Case, got: Any) -> str | Wrong | None:
    if isinstance(got, Raised):
        return "pipeline returns the addresses of the results"
    if got["wrong images"]:
        count, first = len(got["wrong images"]), got["wrong images"][0]
        return Wrong(f"the images are right in all 32 queue orders; wrong in {count}, e.g. {first}")
    if got["host waits"] or got["waits of the main stream"]:
        return "neither the host nor the main stream waits"
    if got["most blocks on the main stream"] > 1 or got["blocks never freed"]:
        return "each source block is freed before the next one is asked for"
    return None


def _show_images(images: list[bytes], seeds: tuple[int, ...]) -> str:
    return f"{len(images)} images of {len(images[0])} bytes, 32 queue orders"


record_the_stream = Exercise(
    id="memory_pool.record_the_stream",
    statement=(
        "Write pipeline(lab, images): for each image (bytes) take a block on lab.main, upload the "
        "image there, copy it to a result block of lab.side on the side stream, and free the "
        "first block before the next image. Return the list of result addresses. Calls: "
        "lab.malloc(nbytes, stream), lab.free(address), lab.record_stream(address, stream), "
        "lab.wait_stream(stream, earlier), lab.upload(address, image, stream), "
        "lab.copy(destination, source, nbytes, stream), lab.synchronize(). Every image must be "
        "right in 32 queue orders. Neither the host nor the main stream may wait."
    ),
    rules=("no lab.synchronize(); lab.main waits for nobody; one source block at a time",),
    case=_images,
    judge=_judge_images,
    drive=_drive_images,
    show=_show_images,
    cases=24,
    sizes=6,
    minutes=15,
    difficulty=3,
    hints=(
        Hint(
            "The source block went to the next image while the side stream had not copied it. Who "
            "tells the allocator that the side stream uses it, and before which call?",
            when=lambda evidence: "queue orders" in evidence.property,
        ),
        Hint(
            "record_stream must come before free: afterwards the block is no longer yours.",
            when=lambda evidence: evidence.kind == "raised",
        ),
        "Two things are ordered by nobody: the copy after the upload (a wait of the side stream), "
        "and the next upload after the copy (the allocator's business, once it knows).",
        "wait_stream(side, main); copy; record_stream(source, side); free(source).",
    ),
    must_fail=(
        "no record_stream",
        "records the block's own stream",
        "records after the free",
        "synchronises the host",
        "makes the main stream wait",
        "frees everything at the end",
        "the side stream does not wait for the upload",
        "records the result instead of the source",
        FIRST,
    ),
)

# --- repair_the_pool


class PoolDriver(Emulated):
    """What a pool may call. Sizes are bytes; streams are ints; a refused malloc gives None."""

    def __init__(self, seed: int, total: int) -> None:
        super().__init__(seed)
        self._total, self._used = total, 0
        self._sizes: dict[int, int] = {}
        self._live: dict[int, int] = {}
        self.peak = self.waits = 0
        self.refused = False
        self.problems: list[str] = []

    def malloc(self, size: int) -> int | None:
        """Address of `size` new bytes, or None."""
        if self._used + size > self._total:
            self.refused = True
            return None
        address = self.calls.malloc(size)
        assert address is not None, "the emulated device is large enough"
        self._sizes[address] = size
        self._used += size
        self.peak = max(self.peak, self._used)
        return address

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""
        if address not in self._sizes:
            raise ValueError(f"driver.free: {address:#x} did not come from driver.malloc")
        size = self._sizes.pop(address)
        for start, length in self._live.items():
            if address < start + length and start < address + size:
                self.problems.append("memory was given back to the device while in use")
        self._used -= size
        self.calls.free(address)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""
        return self._total - self._used, self._total

    def record_event(self, stream: int) -> Any:
        """An event behind everything queued on the stream now."""
        return self.calls.record_event(stream)

    def query_event(self, event: Any) -> bool:
        """True when the event has completed."""
        return self.calls.query_event(event)

    def synchronize_event(self, event: Any) -> None:
        """Wait until the event has completed."""
        self.waits += not self.refused
        self.calls.synchronize_event(event)

    def synchronize_stream(self, stream: int) -> None:
        """Wait until everything queued on the stream has run."""
        self.waits += not self.refused
        self.calls.synchronize_stream(stream)

    def stream_id(self, stream: int) -> int:
        """The number of the stream."""
        return stream

    def lend(self, address: int, size: int) -> None:
        """Note that a block is in use; it must lie in the device's memory, apart from others."""
        self.refused = False
        for start, length in self._live.items():
            if address < start + length and start < address + size:
                self.problems.append("two blocks in use overlap")
        inside = any(a <= address and address + size <= a + n for a, n in self._sizes.items())
        if not inside:
            self.problems.append("a block lies outside the memory of the device")
        self._live[address] = size

    def returned(self, address: int) -> None:
        """Note that a block is no longer in use."""
        del self._live[address]

    def give_back_all(self) -> int:
        """Bytes that the pool kept; afterwards the device has them again."""
        kept = self._used
        for address in list(self._sizes):
            self.calls.free(address)
        self._sizes.clear()
        return kept


class LabkitPool:
    """The caching allocator behind the pool's three methods."""

    def __init__(self, driver: Any) -> None:
        self._allocator = CachingAllocator(driver)

    def allocate(self, size: int, stream: int) -> int:
        try:
            return self._allocator.malloc(size, stream)
        except OutOfMemoryError as error:
            raise MemoryError(str(error)) from None

    def free(self, address: int, used_on: tuple[int, ...] = ()) -> None:
        for stream in used_on:
            self._allocator.record_stream(address, stream)
        self._allocator.free(address)

    def clear(self) -> None:
        self._allocator.empty_cache()


Step = tuple[Any, ...]
WIDTH = 64
"""Bytes at either end of a block that are written and read."""


def _late_write(rng: Rng) -> list[Step]:
    """The old owner's write is still queued when another stream's block could take the place."""
    nbytes = 512 * rng.randint(9, 99)
    return [
        ("slow", 0, 30), ("allocate", "w0", nbytes, 0), ("free", "w0"),
        ("allocate", "w1", nbytes, 1), ("slow", 2, 150), ("use", "w1", 2), ("free", "w1"),
    ]  # fmt: skip


def _late_read(rng: Rng) -> list[Step]:
    """Of two streams that read a block one is done long before the other."""
    nbytes = 512 * rng.randint(9, 99)
    between: list[Step] = []
    for number in range(40):
        between += [("allocate", f"b{number}", 200, 1), ("free", f"b{number}")]
    return [
        ("allocate", "r0", nbytes, 0), ("use", "r0", 1), ("slow", 2, 300), ("use", "r0", 2),
        ("free", "r0"), *between, ("allocate", "r1", nbytes, 0), ("free", "r1"),
    ]  # fmt: skip


def _a_trace(rng: Rng, size: int) -> tuple[Any, ...]:
    """(steps, bytes of the device, queue seeds): rounds of varying sizes, used on other streams."""
    steps: list[Step] = []
    shared = size % 2 == 1  # what is pending depends on the queue order: held bytes do as well
    rounds, width = (3 + size if shared else 4 + 2 * size), rng.randint(4, 8)
    number, live = 0, []
    largest = rng.choice((300 * KIB, MIB, 3 * MIB))
    for _ in range(rounds):
        if shared:
            steps.append(("slow", rng.choice((0, 1, 2)), rng.randint(10, 40)))
        for _ in range(width):
            owner = rng.choice((0, 1))
            name = f"t{number}"
            number += 1
            steps.append(("allocate", name, rng.randint(WIDTH * 2, largest), owner))
            live.append((name, owner))
            others = rng.sample([s for s in (0, 1, 2) if s != owner], 2)
            for other in others[: shared * rng.choice((0, 1, 2, 2))]:
                steps.append(("use", name, other))
        rng.shuffle(live)
        while len(live) > rng.choice((0, 0, 2)):
            steps.append(("free", live.pop()[0]))
        if rng.chance(0.1):
            steps.append(("clear",))
    steps += [("free", name) for name, _ in live]
    if shared:
        steps += _late_write(rng) + _late_read(rng)
    total = 512 * MIB
    kind = rng.randint(0, 3)
    if kind == 0:  # only what goes back leaves room for the last one
        total = 24 * MIB
        steps = [("allocate", f"s{n}", 2 * MIB, 0) for n in range(10)]
        steps += [("free", f"s{n}") for n in range(10)]
        steps.append(("allocate", "large", 18 * MIB, rng.choice((0, 1))))
    elif kind == 1:
        steps += [("allocate", "impossible", total + 1, 0), ("allocate", "after", 4096, 0)]
    return steps, total, tuple(rng.getrandbits(30) for _ in range(3))


class Trace:
    """Runs a trace on a pool and keeps what went wrong."""

    def __init__(self, pool_class: Any, total: int, seed: int) -> None:
        self.driver = PoolDriver(seed, total)
        self.device = self.driver.driver
        self.pool = pool_class(self.driver)
        self.slots = self.device.malloc(1 << 20)
        self.used_on: dict[str, list[int]] = {}
        self.blocks: dict[str, tuple[int, int, int, int]] = {}
        self.expected: list[tuple[str, int, int]] = []
        self.refused: list[str] = []
        self.tag = 0

    def run(self, steps: list[Step]) -> dict[str, Any]:
        """The outcome, in plain data."""
        try:
            for kind, *arguments in steps:
                getattr(self, kind)(*arguments)
            return self.end()
        finally:
            self.device.synchronize()
            self.device.free(self.slots)
            self.driver.give_back_all()

    def allocate(self, name: str, size: int, owner: int) -> None:
        """A block, its ends written on its own stream."""
        stream = Emulated.streams[owner]
        try:
            address = self.pool.allocate(size, stream)
        except MemoryError:
            self.refused.append(name)
            return
        if not isinstance(address, int):
            raise TypeError(f"allocate returns an address, got {address!r}")
        self.driver.lend(address, size)
        if self.driver.problems:
            raise RuntimeError(self.driver.problems[0])
        self.tag = self.tag % 250 + 1
        self.blocks[name] = address, size, stream, self.tag
        for start in (address, address + size - WIDTH):
            self.device.memset_async(start, self.tag, WIDTH, stream)

    def use(self, name: str, other: int) -> None:
        """Another stream reads both ends, after they were written."""
        if name not in self.blocks:
            return
        address, size, owner, tag = self.blocks[name]
        stream = Emulated.streams[other]
        self.driver.after(stream, owner)
        for start in (address, address + size - WIDTH):
            slot = self.slots + WIDTH * len(self.expected)
            self.device.memcpy_async(slot, start, WIDTH, stream)
            self.expected.append((name, slot, tag))
        self.used_on.setdefault(name, []).append(stream)

    def slow(self, index: int, pieces: int) -> None:
        """Other work is ahead of ours on a stream."""
        for _ in range(pieces):
            self.device.memset_async(self.slots + (1 << 20) - WIDTH, 0, 1, Emulated.streams[index])

    def free(self, name: str) -> None:
        """Give the block back."""
        if name in self.blocks:
            address = self.blocks.pop(name)[0]
            self.driver.returned(address)
            self.pool.free(address, tuple(self.used_on.pop(name, ())))

    def clear(self) -> None:
        """What the pool does not need goes back."""
        waits = self.driver.waits
        self.pool.clear()
        self.driver.waits = waits

    def end(self) -> dict[str, Any]:
        """Everything is freed, read and counted."""
        for name in list(self.blocks):
            self.free(name)
        self.device.synchronize()
        wrong = {
            name
            for name, slot, tag in self.expected
            if ctypes.string_at(slot, WIDTH) != bytes([tag]) * WIDTH
        }
        waits, peak = self.driver.waits, self.driver.peak
        self.pool.clear()
        return {
            "wrong data": sorted(wrong),
            "refused": self.refused,
            "waits": waits,
            "most bytes held": peak,
            "bytes kept after clear": self.driver.give_back_all(),
            "problems": sorted(set(self.driver.problems)),
        }


def _drive_pool(
    answer: Any, steps: list[Step], total: int, seeds: tuple[int, ...]
) -> list[dict[str, Any]]:
    return [Trace(answer, total, seed).run(steps) for seed in seeds]


def _judge_pool(case: Case, got: Any) -> str | Wrong | None:
    steps, total, seeds = case.inputs
    if isinstance(got, Raised):
        return "the pool serves the whole trace"
    alone = not any(step[0] == "use" for step in steps)
    refused = [step[1] for step in steps if step[0] == "allocate" and step[2] > total]
    right = Trace(LabkitPool, total, seeds[0]).run(steps) if alone else {"most bytes held": 0}
    for ours in got:
        if ours["problems"]:
            return Wrong(f"nothing overlaps and nothing in use goes back: {ours['problems'][0]}")
        if ours["wrong data"]:
            return Wrong(f"the data are right in every queue order; wrong: {ours['wrong data']}")
        if ours["refused"] != refused:
            return Wrong("MemoryError for what cannot be served, and only for that", refused)
        if ours["waits"]:
            return Wrong("nobody waits while the device has room", 0)
        limit = int(1.15 * right["most bytes held"]) + 4 * MIB
        if alone and ours["most bytes held"] > limit:
            return Wrong(f"at most {limit} bytes are held", right["most bytes held"])
        if ours["bytes kept after clear"]:
            return Wrong("after clear the device has everything back", 0)
    return None


def _fewer_steps(steps: list[Step], total: int, seeds: tuple[int, ...]) -> Iterator[Any]:
    if len(seeds) > 1:
        yield from ((steps, total, (seed,)) for seed in seeds)
    yield steps[: len(steps) // 2], total, seeds
    for name in [step[1] for step in steps if step[0] == "allocate"]:
        yield [step for step in steps if step[1:2] != (name,)], total, seeds


def _show_trace(steps: list[Step], total: int, seeds: tuple[int, ...]) -> str:
    words = [f"{kind}({', '.join(map(str, rest))})" for kind, *rest in steps]
    more = f"; ... {len(words)} in all" if len(words) > 16 else ""
    return f"{'; '.join(words[:16])}{more} (device of {total // MIB} MiB, queue seeds {seeds})"


repair_the_pool = Exercise(
    id="memory_pool.repair_the_pool",
    statement=(
        "Write class Pool with __init__(driver), allocate(size, stream) -> address, free(address, "
        "used_on=()) and clear(). stream is where the block is written; used_on names other "
        "streams that worked on it by the time it is freed. driver has malloc(size) -> address or "
        "None, free(address), record_event(stream), query_event(event), synchronize_event(event). "
        "Needed: memory is asked for in segments, best fit, split and merge; a block is reused at "
        "once on its own stream, and after the events of used_on; when the device is full, wait "
        "for events, give idle segments back and try again; then MemoryError. clear gives idle "
        "segments back and leaves blocks in use alone. Held bytes stay within 1.15 times what the "
        "caching allocator holds, plus 4 MiB, where no block is used on a second stream. Nobody "
        "waits while the device has room."
    ),
    rules=("plain Python: nothing of labkit or torch",),
    case=_a_trace,
    judge=_judge_pool,
    drive=_drive_pool,
    smaller=_fewer_steps,
    show=_show_trace,
    banned=("labkit.memory.caching_allocator",),
    cases=40,
    seconds=10.0,
    minutes=40,
    difficulty=5,
    hints=(
        Hint(
            "Held bytes grow with the number of distinct sizes. A bigger free chunk could serve "
            "this request: cut it, and keep the rest.",
            when=lambda evidence: "held" in evidence.property,
        ),
        Hint(
            "A block was reused while a stream of used_on had not read it yet: keep it aside with "
            "one event per stream, and let it go when all of them have completed.",
            when=lambda evidence: "data" in evidence.property,
        ),
        Hint(
            "The device is full of idle segments of a wrong size. Give them back, then ask again.",
            when=lambda evidence: "MemoryError" in evidence.property,
        ),
        Hint(
            "On its own stream a block needs no wait at all: what is queued later runs later.",
            when=lambda evidence: "nobody waits" in evidence.property,
        ),
        "Keep every segment as a list of blocks [address, size, free]; search all segments of the "
        "stream for the smallest free block that fits; split; on free, merge with free neighbours.",
    ),
    must_fail=(
        "exact-size keys",
        "waits for the device at every free",
        "ignores streams",
        "never returns memory on failure",
        "clear frees live blocks",
        "loses the remainder of a split",
        ORDERS,
        FIRST,
    ),
)

# --- clear_while_busy


class BusyDriver:
    """A device whose free takes effect at once, and which lets a second thread in where it hurts.

    total   bytes; streams count the work that was queued and that has run
    """

    def __init__(self, total: int) -> None:
        self._total, self._used, self._next = total, 0, 0x600000000000
        self._sizes: dict[int, int] = {}
        self._queued: dict[int, int] = {}
        self._run: dict[int, int] = {}
        self._uses: dict[int, list[tuple[int, int]]] = {}
        self._state = threading.Lock()
        self.lent: set[int] = set()
        self.problems: list[str] = []
        self.intruder: Any = None
        self.threads: list[threading.Thread] = []
        self.calls = 0

    def malloc(self, size: int) -> int | None:
        """Address of `size` new bytes, or None."""
        self._let_in("malloc")
        with self._state:
            if self._used + size > self._total:
                return None
            address, self._next = self._next, self._next + size
            self._sizes[address] = size
            self._used += size
            return address

    def free(self, address: int) -> None:
        """The bytes are gone, whoever still works on them."""
        self._let_in("free")
        with self._state:
            if address not in self._sizes:
                self.problems.append("an address was freed twice")
                return
            if address in self.lent:
                self.problems.append("a chunk that was handed out was freed")
            if not self._done(address):
                self.problems.append("a chunk was freed while a stream worked on it")
            self._used -= self._sizes.pop(address)

    def record_event(self, stream: int) -> tuple[int, int]:
        """An event behind everything queued on the stream now."""
        return stream, self._queued.get(stream, 0)

    def query_event(self, event: tuple[int, int]) -> bool:
        """True when the event has completed. Asking a million times does not help."""
        self._let_in("query")
        self.calls += 1
        return self._run.get(event[0], 0) >= event[1]

    def synchronize_event(self, event: tuple[int, int]) -> None:
        """Wait until the event has completed."""
        self._let_in("wait")
        stream, ticket = event
        self._run[stream] = max(self._run.get(stream, 0), ticket)

    def work(self, stream: int) -> int:
        """Queue something on the stream."""
        self._queued[stream] = self._queued.get(stream, 0) + 1
        return self._queued[stream]

    def finish(self, stream: int) -> None:
        """Everything queued on the stream has run."""
        self._run[stream] = self._queued.get(stream, 0)

    def lend(self, address: Any) -> None:
        """Note that a chunk was handed out."""
        with self._state:
            if address in self.lent:
                self.problems.append("one chunk was handed out twice")
            elif address not in self._sizes:
                self.problems.append("an address was handed out that the device has back")
            elif not self._done(address):
                self.problems.append("a chunk was handed out while a stream worked on it")
            self.lent.add(address)

    def returned(self, address: int, streams: tuple[int, ...]) -> None:
        """Note that a chunk comes back after these streams' work so far."""
        with self._state:
            self.lent.discard(address)
            self._uses[address] = [(stream, self._queued.get(stream, 0)) for stream in streams]

    @property
    def held(self) -> int:
        """Bytes that were not given back."""
        return self._used

    def _done(self, address: int) -> bool:
        return all(self._run.get(s, 0) >= ticket for s, ticket in self._uses.get(address, ()))

    def _let_in(self, where: str) -> None:
        """A second thread starts here; while the device is waited for it must get through."""
        if self.intruder is None or self.intruder[0] != where:
            return
        (_, act), self.intruder = self.intruder, None
        thread = threading.Thread(target=act, daemon=True)
        self.threads.append(thread)
        thread.start()
        if where != "wait":
            thread.join(0.02)
        elif not ends(thread):
            self.problems.append("another thread had to wait for the lock during a device wait")


def _a_busy_run(rng: Rng, size: int) -> tuple[Any, ...]:
    steps: list[Step] = []
    sizes = rng.sample((512, 1024, 4096, 65536), 2)
    for _ in range(4 + 3 * size):
        kind = rng.choice(("allocate", "allocate", "free", "free", "finish", "clear"))
        if kind == "allocate":
            steps.append((kind, rng.choice(sizes)))
        elif kind == "free":
            count = rng.randint(0, 2)
            steps.append((kind, rng.random(), tuple(rng.sample((1, 2, 3), count))))
        elif kind == "finish":
            steps.append((kind, rng.choice((1, 2, 3))))
        else:
            where = rng.choice(("free", "free", "query", "wait", "none"))
            steps.append((kind, where, rng.choice(sizes)))
    if rng.chance(0.3):
        steps.append(("full", rng.choice(sizes)))
    if rng.chance(0.3):
        steps.append(("impossible",))
    return steps, rng.choice(("free", "query", "wait"))


class BusyRun:
    """Runs the steps on a pool, with a second thread where the steps say so."""

    def __init__(self, pool_class: Any) -> None:
        self.driver = BusyDriver(16 * MIB)
        self.pool = pool_class(self.driver)
        self.mine: list[int] = []
        self.refused: list[str] = []
        self.errors: list[str] = []

    def allocate(self, size: int) -> None:
        """A chunk for this thread."""
        address = self.pool.allocate(size)
        self.driver.lend(address)
        self.mine.append(address)

    def intrude(self, size: int) -> None:
        """What the second thread does: one chunk, worked on and given back."""
        try:
            address = self.pool.allocate(size)
            self.driver.lend(address)
            self.driver.work(3)
            self.driver.returned(address, (3,))
            self.pool.free(address, (3,))
        except RuntimeError:
            if not self.closing:
                self.errors.append("allocate refused in a second thread")
        except BaseException as error:
            self.errors.append(f"{type(error).__name__} in a second thread: {error}")

    closing = False

    def free(self, which: float, streams: tuple[int, ...]) -> None:
        """A chunk comes back, with work of these streams behind it."""
        if self.mine:
            address = self.mine.pop(int(which * len(self.mine)))
            for stream in streams:
                self.driver.work(stream)
            self.driver.returned(address, streams)
            self.pool.free(address, streams)

    def finish(self, stream: int) -> None:
        """The stream has run everything."""
        self.driver.finish(stream)

    def clear(self, where: str, size: int) -> None:
        """Clear, with a second thread coming in at the first such call of the driver."""
        self.driver.intruder = (where, lambda: self.intrude(size))
        self.pool.clear()
        self._join()

    def full(self, size: int) -> None:
        """The device is full of chunks that come back: there is room for one large chunk."""
        for address in self.mine:
            self.driver.work(1)
            self.driver.returned(address, (1,))
            self.pool.free(address, (1,))
        self.mine = []
        self.driver.intruder = ("wait", lambda: self.intrude(size))
        address = self.pool.allocate(16 * MIB - 2 * size)
        self._join()
        self.driver.lend(address)
        self.driver.returned(address, ())
        self.pool.free(address, ())

    def impossible(self) -> None:
        """More than the device has."""
        try:
            self.pool.allocate(17 * MIB)
        except MemoryError:
            self.refused.append("17 MiB refused")
        else:
            self.errors.append("17 of 16 MiB were allocated")

    def end(self, where: str) -> None:
        """Close while some chunks are handed out; they come back afterwards."""
        self.closing = True
        self.driver.intruder = (where, lambda: self.intrude(512))
        self.pool.close()
        self._join()
        try:
            self.pool.allocate(512)
        except RuntimeError:
            self.refused.append("closed")
        for address in self.mine:
            self.driver.work(2)
            self.driver.returned(address, (2,))
            self.pool.free(address, (2,))

    def _join(self) -> None:
        self.driver.intruder = None
        for thread in self.driver.threads:
            if not ends(thread):
                self.errors.append("a second thread never came back")
        self.driver.threads = []


def _drive_busy(answer: Any, steps: list[Step], where: str) -> dict[str, Any]:
    run = BusyRun(answer)
    for kind, *arguments in steps:
        getattr(run, kind)(*arguments)
        if run.driver.problems or run.errors:
            break
    else:
        run.end(where)
    return {
        "problems": [*run.driver.problems, *run.errors],
        "refused": run.refused,
        "bytes never given back": run.driver.held,
    }


def _judge_busy(case: Case, got: Any) -> str | Wrong | None:
    steps, _ = case.inputs
    if isinstance(got, Raised):
        return "every call of this run succeeds"
    if got["problems"]:
        return f"this never happens: {got['problems'][0]}"
    wanted = ["17 MiB refused"] * sum(s[0] == "impossible" for s in steps) + ["closed"]
    if got["refused"] != wanted:
        return Wrong("MemoryError for 17 of 16 MiB, RuntimeError after close", wanted)
    if got["bytes never given back"]:
        return Wrong("after close and the last free the device has everything back", 0)
    return None


def _shorter_run(steps: list[Step], where: str) -> Iterator[Any]:
    for at in range(len(steps)):
        yield [*steps[:at], *steps[at + 1 :]], where


clear_while_busy = Exercise(
    id="memory_pool.clear_while_busy",
    statement=(
        "Write class Pool with __init__(driver), allocate(size) -> address, free(address, "
        "streams=()), clear() and close(), safe for several threads. streams are all streams that "
        "still work on the chunk. driver has malloc(size) -> address or None, free(address), "
        "record_event(stream), query_event(event), synchronize_event(event); its free takes "
        "effect at once. A chunk is idle when the events of its streams have completed: only then "
        "may it be handed out again (for exactly its size) or freed. When the device is full, "
        "wait for what is pending, free what is idle, try again, then MemoryError. clear frees "
        "idle chunks and does not touch others. close waits for what is pending and frees it; "
        "afterwards allocate raises RuntimeError, and a chunk that was still handed out goes back "
        "to the device at its free, once its streams are done. No lock may be held while you wait "
        "for the device."
    ),
    rules=("plain Python with threading: nothing of labkit or torch",),
    case=_a_busy_run,
    judge=_judge_busy,
    drive=_drive_busy,
    smaller=_shorter_run,
    cases=60,
    waits=2.0,  # a pool that holds its lock while it waits for another thread never ends
    processes=True,
    minutes=30,
    difficulty=5,
    hints=(
        Hint(
            "Two frees of one address, or a freed chunk in somebody's hands: clear walked over a "
            "list that another thread changed. Take the idle chunks out under the lock first, "
            "then free them.",
            when=lambda evidence: "freed" in evidence.property or "handed" in evidence.property,
        ),
        Hint(
            "Wait without the lock: take the pending chunks out under it, wait for their events "
            "outside, and take it again.",
            when=lambda evidence: "lock" in evidence.property,
        ),
        "Who owns a chunk that was handed out? Remember its size until it comes back; close must "
        "not forget it.",
        "Track live chunks; clear touches idle, event-free ones. A chunk is idle when all of its "
        "events have completed, in whatever order.",
    ),
    must_fail=(
        "no lock",
        "holds the lock during device waits",
        "frees pending blocks",
        "forgets chunks handed out",
        SLOW,
        ORDERS,
        CATCHES,
    ),
)

EXERCISES = (record_the_stream, repair_the_pool, clear_while_busy)
