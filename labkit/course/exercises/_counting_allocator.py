"""An allocator of one's own: two entry points called from C, a log and a limit."""

import ctypes
from collections.abc import Callable
from typing import Any

import labkit._tensor  # noqa: F401  tensors have their methods before the clock runs
from labkit.core import tensor_impl
from labkit.core.allocator import DataPtr, get_allocator, set_allocator
from labkit.core.device import CPU
from labkit.core.dtype import uint8
from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._never_right import CONSTANT

CATCHES = "catches every exception and returns a default"

ALIGNMENT = 64
ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p
)  # what torch.cuda.memory.CUDAPluggableAllocator loads from a library


@handed_out
class Plugged:
    """The entry points behind C function pointers, serving labkit's tensors.

    An exception cannot cross C: what escapes the entry points is counted, and stands for NULL.
    """

    def __init__(self, own: Any) -> None:
        self.device, self.stream = 0, 0
        self.escaped: list[str] = []
        self.shared = 0
        self._live: dict[int, int] = {}
        self._alloc = ALLOC(self._safe(own.alloc))
        self._free = FREE(self._safe(own.free))

    def _safe(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def entry(*arguments: Any) -> Any:
            try:
                return call(*[0 if value is None else value for value in arguments])
            except Exception as error:
                self.escaped.append(type(error).__name__)
                return None

        return entry

    def allocate(self, nbytes: int) -> DataPtr:
        """Own `nbytes` bytes.

        Raises   RuntimeError   the entry point returned NULL
        """
        if nbytes == 0:
            return DataPtr(0, CPU)
        address = self._alloc(nbytes, self.device, self.stream) or 0
        if address == 0:
            raise RuntimeError(f"out of memory: {nbytes} bytes asked for")
        if any(a < address + nbytes and address < a + n for a, n in self._live.items()):
            self.shared += 1  # writing there would spoil a tensor, or the process
            raise RuntimeError(f"{address:#x} belongs to a tensor that lives")
        self._live[address] = nbytes
        context = (address, nbytes, self.device, self.stream)
        return DataPtr(address, CPU, context, self._give_back)

    def _give_back(self, context: tuple[int, int, int, int]) -> None:
        del self._live[context[0]]
        self._free(*context)


def _requests(rng: Rng, size: int) -> tuple[int, list[tuple[Any, ...]]]:
    """A limit, and allocations and frees that touch it."""
    limit = rng.choice((2000, 20_000))
    steps: list[tuple[Any, ...]] = []
    live: list[int] = []
    for number in range(2 + rng.randint(0, 3 * size)):
        if live and rng.chance(0.4):
            steps.append(("free", live.pop(rng.randint(0, len(live) - 1))))
            continue
        nbytes = rng.choice((1, 100, 512, 700, limit // 2, limit // 3, limit, limit + 1))
        steps.append(("alloc", number, nbytes, rng.choice((0, 0, 1, 3)), rng.choice((0, 0, 7, 33))))
        live.append(number)
    return limit, steps


def _served(limit: int, steps: list[tuple[Any, ...]]) -> dict[str, Any]:
    log: list[tuple[Any, ...]] = []
    live: dict[int, tuple[int, int, int]] = {}
    outcomes: list[Any] = []
    for step in steps:
        if step[0] == "free":
            if step[1] in live:
                log.append(("free", *live.pop(step[1])))
        elif sum(size for size, _, _ in live.values()) + step[2] > limit:
            log.append(("refused", *step[2:]))
            outcomes.append("RuntimeError")
        else:
            live[step[1]] = step[2:]
            log.append(("alloc", *step[2:]))
            outcomes.append("served")
    bytes_at_the_end = sum(size for size, _, _ in live.values())
    for one in list(live):
        log.append(("free", *live.pop(one)))
    return {
        "outcomes": outcomes,
        "log": log,
        "live_bytes before the last frees": bytes_at_the_end,
        "live_bytes at the end": 0,
        "addresses not on 64 bytes": 0,
        "times bytes of a living tensor were handed out": 0,
        "tensors whose values changed": 0,
        "exceptions that left an entry point": [],
    }


def _frees(steps: list[tuple[Any, ...]]) -> bool:
    return any(step[0] == "free" for step in steps)


def _all_fit(limit: int, steps: list[tuple[Any, ...]]) -> bool:
    return "RuntimeError" not in _served(limit, steps)["outcomes"]


def _drive_allocator(answer: Any, limit: int, steps: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Tensors of labkit served by the answer: each holds its own number until it is freed."""
    own = answer(limit)
    plugged = Plugged(own)
    before = get_allocator("cpu")
    live: dict[int, Any] = {}
    found: dict[str, Any] = {"outcomes": []}
    crooked = changed = 0
    try:
        for step in steps:
            if step[0] == "free":
                gone = live.pop(step[1], None)
                if gone is not None:
                    changed += any(value != step[1] % 251 for value in gone.tolist())
                del gone
                continue
            _, number, nbytes, plugged.device, plugged.stream = step
            set_allocator("cpu", plugged)
            try:
                tensor: Any = tensor_impl.empty((nbytes,), uint8)
            except RuntimeError:
                found["outcomes"].append("RuntimeError")
                continue
            finally:
                set_allocator("cpu", before)
            found["outcomes"].append("served")
            crooked += tensor.data_ptr() % ALIGNMENT != 0
            tensor.fill_(number % 251)
            live[number] = tensor
            del tensor
        found["live_bytes before the last frees"] = own.live_bytes
        for number in list(live):
            changed += any(value != number % 251 for value in live[number].tolist())
            del live[number]
    finally:
        set_allocator("cpu", before)
    return {
        "outcomes": found["outcomes"],
        "log": list(own.log),
        "live_bytes before the last frees": found["live_bytes before the last frees"],
        "live_bytes at the end": own.live_bytes,
        "addresses not on 64 bytes": crooked,
        "times bytes of a living tensor were handed out": plugged.shared,
        "tensors whose values changed": changed,
        "exceptions that left an entry point": plugged.escaped,
    }


def _row(name: str) -> Any:
    return lambda e: isinstance(e.value, dict) and e.value[name] != e.right[name]


def _requests_in_words(limit: int, steps: list[tuple[Any, ...]]) -> str:
    texts = [
        f"free {step[1]}"
        if step[0] == "free"
        else f"{step[1]}: {step[2]} bytes, device {step[3]}, stream {step[4]}"
        for step in steps
    ]
    return f"limit {limit}; " + "; ".join(texts)


counting_allocator = Exercise(
    id="profiling_inplace_allocators.counting_allocator",
    rules=("host memory by ctypes, NumPy or the C library",),
    case=_requests,
    expected=_served,
    drive=_drive_allocator,
    show=_requests_in_words,
    rung="boss",
    stages=(
        Stage("served", only=lambda limit, steps: not _frees(steps) and _all_fit(limit, steps)),
        Stage("given back", only=lambda limit, steps: _frees(steps) and _all_fit(limit, steps)),
        Stage("limit", only=lambda limit, steps: not _all_fit(limit, steps)),
        Stage("together"),
    ),
    cases=120,
    sizes=6,
    minutes=20,
    hints=(
        Hint(
            "An exception left an entry point. The caller is C: it cannot catch it, and it never "
            "learns why. 0 is the word for 'no memory'; the caller raises.",
            when=_row("exceptions that left an entry point"),
        ),
        Hint(
            "An address is not a multiple of 64. Ask for 63 bytes more, and round the address up.",
            when=_row("addresses not on 64 bytes"),
        ),
        Hint(
            "An address was handed out that belongs to a living tensor. Each request needs its "
            "own bytes, held until free is called for that address.",
            when=_row("times bytes of a living tensor were handed out"),
        ),
        Hint(
            "The limit counts what lives: sizes as asked for, less what was freed. Exactly the "
            "limit is still served.",
            when=_row("outcomes"),
        ),
        Hint(
            "The log has another size, device or stream than the request. Who rounds: the pool or "
            "you? Log the request as it came.",
            when=_row("log"),
        ),
        "Keep a dictionary from address to whatever holds the memory.",
    ),
    must_fail=(
        "rounds sizes in the log",
        "frees twice",
        "ignores the stream",
        "returns unaligned memory",
        "limit raises MemoryError from Python inside the callback",
        CONSTANT,
        "is right on the default stream or device and wrong on another one",
        CATCHES,
    ),
)
