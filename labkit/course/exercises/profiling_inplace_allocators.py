"""A leak found by its stack, and an allocator of one's own."""

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import Any

import labkit._tensor  # noqa: F401  tensors have their methods before the clock runs
from labkit.core import tensor_impl
from labkit.core.allocator import DataPtr, get_allocator, set_allocator
from labkit.core.device import CPU
from labkit.core.dtype import uint8
from labkit.course.exercise import Evidence, Exercise, Hint, Rng, handed_out
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice

NOTEBOOK = "1_fundamentals/8_profiling_inplace_allocators"

FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
CATCHES = "catches every exception and returns a default"
SLOW = "is right on small cases and exceeds the size limit on large ones"
SLOW += " (quadratic, recursive or waiting for ever)"


# --- leak_detective

PROGRAM = """
def activation(nbytes):
    return new(nbytes)


def forward(step):
    hidden = activation({hidden})
    output = activation({output})
    return Loss(new(512), (hidden, output))


def load(step):
    batch = new({batch})
    if step % {every} == 0:
        raise ValueError(step)
    return batch


def optimizer_step(step):
    if not state:
        state.extend(new({moments}) for _ in range(2))
    if step < {warm}:
        workspaces.append(new({workspace}))


def remember(step):
    cache[step % {capacity}] = new({cached})
    if step % {period} == 0:
        window.clear()
    window.append(new({cached}))


def train_step(step):
    loss = forward(step)
    optimizer_step(step)
    remember(step)
    grown = new({batch})
    {lines}
    return loss
"""
MECHANISMS = {
    "list": ("if step % {every} == 0:", "    kept.append(new({leak}))"),
    "dict": ("seen[step] = new({leak}) if step % {every} == 0 else None",),
    "closure": ("extra = new({leak})", "hooks.append(lambda: extra)"),
    "graph": ("kept.append(loss)",),
    "exception": (
        "try:",
        "    load(step)",
        "except ValueError as error:",
        "    kept.append(error)",
    ),
    "joined": (
        "seen['all'] = new({leak} * (step + 1))",
        "grown = None",
    ),
    "clean": ("grown = None",),
    "handled": ("try:", "    load(step)", "except ValueError as error:", "    str(error)"),
}
"""What a step does last: the first six never let go of something, the last two do."""


class Memory:
    """Bytes of a program, given back when nobody holds this any more."""

    def __init__(self, program: "Program", nbytes: int) -> None:
        self.program = program
        self.address = program.allocator.malloc(nbytes)
        frames, frame = [], sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == "train.py":
                name = frame.f_code.co_name
                frames.append({"filename": "train.py", "line": frame.f_lineno, "name": name})
            frame = frame.f_back  # type: ignore[assignment]
        program.frames[self.address] = frames

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():
            return
        del self.program.frames[self.address]
        self.program.allocator.free(self.address)


class Loss:
    """The result of a forward pass; it holds what backward would need."""

    def __init__(self, value: Memory, saved: tuple[Memory, ...]) -> None:
        self.value, self.saved = value, saved


class Program:
    """A training program on an allocator of its own: a step at a time, and its snapshot."""

    MOST_STEPS = 200

    def __init__(self, text: str) -> None:
        self.allocator = CachingAllocator(SimulatedDevice(1 << 40))
        self.frames: dict[int, list[dict[str, Any]]] = {}
        self.steps = 0
        names: dict[str, Any] = {"new": lambda nbytes: Memory(self, nbytes), "Loss": Loss}
        for name in ("state", "workspaces", "window", "kept", "hooks"):
            names[name] = []
        names["cache"], names["seen"] = {}, {}
        exec(compile(text, "train.py", "exec"), names)
        self.names = names

    def step(self) -> Loss:
        """One more step; the loss is yours."""
        if self.steps == self.MOST_STEPS:
            raise RuntimeError(f"the program ends after {self.MOST_STEPS} steps")
        self.steps += 1
        loss: Loss = self.names["train_step"](self.steps - 1)
        return loss

    def snapshot(self) -> dict[str, Any]:
        """Segments and blocks as `torch.cuda.memory._snapshot` has them, with the stacks."""
        segments = self.allocator.memory_map()
        for segment in segments:
            for block in segment["blocks"]:
                block["frames"] = list(self.frames.get(block["address"], ()))
        return {"segments": segments, "device_traces": [[]]}

    def bytes_by_stack(self) -> dict[Any, int]:
        """Bytes that live now, per stack."""
        found: dict[Any, int] = {}
        for block in self.allocator.live_blocks():
            stack = tuple((f["filename"], f["line"]) for f in self.frames[block.address])
            found[stack] = found.get(stack, 0) + block.size
        return found

    def close(self) -> None:
        """Everything the program holds is dropped."""
        self.names.clear()


def _a_program(rng: Rng, size: int) -> tuple[str]:
    kind = rng.choice([*list(MECHANISMS)[:6] * 2, "clean", "clean", "handled", "handled"])
    crowd = size > 3 and rng.chance(0.25)
    numbers = {
        "hidden": rng.choice((4096, 65_536)),
        "output": rng.choice((2048, 8192)),
        "batch": rng.choice((1024, 40_000)),
        "moments": rng.choice((1 << 20, 8 << 20)),
        "warm": rng.randint(3, 12),
        "workspace": rng.choice((512, 100_000)),
        "capacity": rng.randint(2, 10),
        "period": rng.randint(1, 6),
        "cached": rng.choice((700, 30_000)),
        "every": rng.randint(1, 4),
        "leak": rng.choice((512, 5000)),
    }
    lines = [line.format(**numbers) for line in MECHANISMS[kind]]
    blanks = "\n" * rng.randint(0, 4)
    text = blanks + PROGRAM.format(lines="\n    ".join(lines), **numbers)
    if crowd:
        text = text.replace("range(2)", "range(1200)")
    return (text,)


def _growing(text: str) -> dict[str, Any]:
    """The stacks that have more bytes in late steps than in any before, however long one waits."""
    program = Program(text)
    lowest: list[dict[Any, int]] = []
    for first in (30, 70):
        while program.steps < first:
            program.step()
        seen = []
        for _ in range(20):
            program.step()
            seen.append(program.bytes_by_stack())
        stacks = {stack for one in seen for stack in one}
        lowest.append({stack: min(one.get(stack, 0) for one in seen) for stack in stacks})
    program.close()
    stacks = {stack for stack, size in lowest[1].items() if size > lowest[0].get(stack, 0)}
    return {"growing": stacks, "bytes you still hold": 0}


def _drive_detective(answer: Any, text: str) -> dict[str, Any]:
    """What the answer says, and what is held beyond what the program holds alone."""
    program = Program(text)
    found = answer(program.step, program.snapshot)
    alone = Program(text)
    for _ in range(program.steps):
        alone.step()
    over = program.allocator.allocated_bytes - alone.allocator.allocated_bytes
    if over:
        gc.collect()
        over = program.allocator.allocated_bytes - alone.allocator.allocated_bytes
    for one in (program, alone):
        one.close()
    return {"growing": found, "bytes you still hold": over}


def _shown_program(text: str) -> str:
    lines = text.strip("\n").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("def train_step"))
    return "train_step: " + " | ".join(line.strip() for line in lines[start + 5 : -1])


def _accused(evidence: Evidence) -> set[Any]:
    """Stacks that were named and do not grow."""
    found = set(evidence.value["growing"]) if isinstance(evidence.value, dict) else set()
    return found - set(evidence.right["growing"])


def _missed(evidence: Evidence) -> set[Any]:
    found = evidence.value["growing"] if isinstance(evidence.value, dict) else set()
    return set(evidence.right["growing"] - set(found))


leak_detective = Exercise(
    id="profiling_inplace_allocators.leak_detective",
    statement=(
        "Write find_leak(step, snapshot). step() runs one more step of a training program (200 at "
        "most) and returns its loss, which holds memory as long as you hold it. snapshot() returns "
        "the memory of now in PyTorch's format: segments, their blocks, and in each block state, "
        "size and frames, innermost first. Return the set of stacks, each a tuple of (filename, "
        "line), whose active bytes grow for ever; an empty set for a clean program. What fills up "
        "has done so after 12 steps, what goes up and down repeats within 6 steps, and what leaks "
        "does so at least once in 4 steps."
    ),
    rules=("plain Python; hold nothing when you return",),
    case=_a_program,
    expected=_growing,
    drive=_drive_detective,
    show=_shown_program,
    cases=40,
    sizes=6,
    minutes=25,
    difficulty=3,
    hints=(
        Hint(
            "Memory is still held after you returned, or was held while you looked: by you. "
            "step() returns the loss, and a loss holds its graph. Do not keep it.",
            when=lambda e: e.value["bytes you still hold"] > 0,
        ),
        Hint(
            "You accused something that stops growing: optimizer state, a warm-up, a bounded "
            "cache. Is it larger after 40 steps than after 20? And at every moment in between?",
            when=lambda e: bool(_accused(e)) and not _missed(e),
        ),
        Hint(
            "{input} keeps one block and makes it larger each time: as many blocks as before, "
            "and more bytes. Count bytes.",
            when=lambda e: "step + 1" in e.inputs[0] and bool(_missed(e)),
        ),
        Hint(
            "One loss that is kept holds its whole graph, so several stacks grow at once. Name "
            "each of them.",
            when=lambda e: len(_missed(e)) > 0 and len(e.right["growing"]) > 1,
        ),
        "Stopped? There may be thousands of blocks. Go over them once per snapshot, with a "
        "dictionary from stack to bytes.",
        "Sum the bytes of the blocks with state active_allocated, per stack, after each step. "
        "Then compare late steps with later ones.",
        "A cache goes up and down, a leak only up: compare the LOWEST value of one stretch of "
        "steps with the lowest of the next.",
    ),
    must_fail=(
        "reports the largest allocation",
        "compares first and last step only",
        "counts Python objects not bytes",
        "flags the bounded cache",
        "keeps tensors alive itself",
        FIRST,
        READS,
        SLOW,
    ),
)


# --- counting_allocator

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
    statement=(
        "Write a class CountingAllocator(limit) with the two entry points of a pluggable "
        "allocator. alloc(size, device, stream) returns the address of size usable bytes, on a "
        "multiple of 64, and appends ('alloc', size, device, stream) to self.log; if live_bytes "
        "would go over the limit it appends ('refused', size, device, stream) and returns 0. "
        "free(address, size, device, stream) gives the bytes back and appends ('free', size, "
        "device, stream). live_bytes is the sum of the sizes asked for and not yet freed. No "
        "exception may leave an entry point: they are called from C."
    ),
    rules=("host memory by ctypes, NumPy or the C library",),
    case=_requests,
    expected=_served,
    drive=_drive_allocator,
    show=_requests_in_words,
    cases=120,
    sizes=6,
    minutes=20,
    difficulty=3,
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
        LITERAL,
        "is right on the default stream or device and wrong on another one",
        CATCHES,
    ),
)

EXERCISES = (leak_detective, counting_allocator)
