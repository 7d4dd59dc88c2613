"""An emulated device shared by all cases, and the pipeline that must record a stream."""

import ctypes
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._never_right import FIRST
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.memory_calls import MemoryCalls
from labkit.memory.caching_allocator import CachingAllocator


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

    @classmethod
    def name(cls, stream: int) -> Any:
        """How a picture calls the stream: 0, 1 or 2."""
        return cls.streams.index(stream) if stream in cls.streams else stream

    def after(self, stream: int, earlier: int) -> None:
        """What is queued on `stream` from now on runs after what `earlier` has now."""
        event = self.driver.event_create()
        self.driver.event_record(event, earlier)
        self.driver.stream_wait_event(stream, event)
        self.driver.event_destroy(event)


class Lab(Emulated):
    """What a pipeline of `record_the_stream` may use. Sizes are bytes, addresses ints."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.main, self.side = Emulated.streams[:2]
        self._allocator = CachingAllocator(self.calls)
        self._kept: list[Any] = []
        self.program: list[tuple[Any, ...]] = []
        self._numbers: dict[int, int] = {}
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
        mark = len(self.program)
        self._note(("record", earlier), mark)
        self._note(("wait", stream), mark)
        self.after(stream, earlier)

    def synchronize(self) -> None:
        """The host waits for everything."""
        self.host_waits += 1
        self.program.append(("synchronize", None))
        self.driver.synchronize()

    def upload(self, address: int, image: bytes, stream: int) -> None:
        """Queue: the block holds the image."""
        self._note(("run", stream), (), (self._named(address),))
        buffer = ctypes.create_string_buffer(image, len(image))
        self._kept.append(buffer)
        self.driver.memcpy_async(address, ctypes.addressof(buffer), len(image), stream, buffer)

    def copy(self, destination: int, source: int, nbytes: int, stream: int) -> None:
        """Queue: the source's bytes are in the destination."""
        self._note(("run", stream), (self._named(source),), (self._named(destination),))
        self.driver.memcpy_async(destination, source, nbytes, stream)

    def _named(self, address: int) -> str:
        """The blocks are numbered as they are first worked on."""
        return f"block {self._numbers.setdefault(address, len(self._numbers))}"

    def _note(self, start: tuple[str, int], *rest: Any) -> None:
        kind, stream = start
        name = {self.main: "main", self.side: "side"}.get(stream, stream)
        self.program.append((kind, name, *rest))

    def finish(self, addresses: list[int], nbytes: int) -> list[bytes]:
        """What the results hold in the end; everything goes back."""
        self.driver.synchronize()
        found = [self.driver.peek(address, nbytes) for address in addresses]
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


def _one_image(rng: Rng, size: int) -> tuple[Any, ...]:
    images, seeds = _images(rng, size)
    return images[:1], seeds


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
        found["program"] = lab.program
    return found


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """What was queued, and which pieces of work nothing orders."""
    from labkit import show

    return show.streams(got["program"], title="your pipeline: what overlaps here may overlap")


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
    case=_images,
    judge=_judge_images,
    drive=_drive_images,
    show=_show_images,
    picture=_drawn,
    stages=(Stage("one image", case=_one_image, cases=4), Stage("block used again")),
    cases=24,
    sizes=6,
    minutes=12,
    hints=(
        Hint(
            "The copy and the upload are on two streams: nothing says that the upload comes first.",
            when=lambda e: "queue orders" in e.property,
            stage="one image",
        ),
        Hint(
            "The source block went to the next image while the side stream had not copied it. Who "
            "tells the allocator that the side stream uses it, and before which call?",
            when=lambda e: "queue orders" in e.property,
            stage="block used again",
        ),
        Hint(
            "record_stream must come before free: afterwards the block is no longer yours.",
            when=lambda e: e.kind == "raised" and "device pointer" in e.got,
        ),
        Hint(
            "Only the side stream has to wait, for the upload. The host and the main stream go on.",
            when=lambda e: "neither the host" in e.property,
        ),
        Hint(
            "Free each source block in the loop, as soon as its copy is queued.",
            when=lambda e: "is freed before" in e.property,
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
