"""Introduction: who records a graph, where torch and NumPy part, and a sum over processes."""

import atexit
import contextlib
import json
import multiprocessing
import multiprocessing.util
import os
import signal
import socket
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.exercise import Evidence, Exercise, Hint, Raises, Rng, handed_out
from labkit.course.stopwatch import undisturbed

NOTEBOOK = "1_fundamentals/1_introduction"

Line = tuple[Any, ...]
Program = tuple[Line, ...]

FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "uint8", "bool")
ONE_INPUT = ("exp", "sign", "clone", "sum", "detach", "argmax")
TWO_INPUTS = ("add", "mul", "gt")


# graph_or_no_graph


def _a_program(rng: Rng, size: int) -> tuple[Program]:
    lines: list[Line] = []
    dtypes: dict[str, str] = {}
    depth = 0

    def leaf() -> None:
        name = "abcdefghijklmnopqrstuvwxyz"[len(dtypes)]
        dtypes[name] = rng.choice(FLOATS if rng.chance(0.7) else INTEGERS)
        asks = rng.chance(0.75) and dtypes[name] in FLOATS
        asks = asks or rng.chance(0.02 + 0.04 * (size == 0))  # an integer one is refused
        lines.append(("leaf", name, dtypes[name], asks))

    leaf()
    for _ in range(1 + size):
        if rng.chance(0.2):
            leaf()
        elif rng.chance(0.25):
            if depth and rng.chance(0.6):
                lines.append(("exit",))
                depth -= 1
            else:
                mode = "no_grad" if depth == 0 or rng.chance(0.3) else "enable_grad"
                lines.append(("enter", mode))
                depth += 1
        lines.append(_an_operation(rng, dtypes))
    return ((*lines, *[("exit",)] * depth),)


def _an_operation(rng: Rng, dtypes: dict[str, str]) -> Line:
    """A line that computes a new name, mostly from recent ones; it keeps `dtypes` up to date."""
    names = list(dtypes)
    pick: Callable[[], str] = lambda: rng.choice(names[-3:] if rng.chance(0.7) else names)  # noqa: E731
    result = "abcdefghijklmnopqrstuvwxyz"[len(names)]
    first = pick()
    kind = rng.choice(("one", "two", "two", "to"))
    if kind == "to":
        same = rng.chance(0.25)
        dtype = dtypes[first] if same else rng.choice(FLOATS if rng.chance(0.5) else INTEGERS)
        line: Line = ("to", result, first, dtype)
    elif kind == "two":
        line = (rng.choice(TWO_INPUTS), result, first, pick())
    else:
        name = rng.choice(ONE_INPUT)
        line = ("clone" if name == "argmax" and dtypes[first] == "bool" else name, result, first)
    stand_ins = {name: torch.ones(3, dtype=getattr(torch, dtypes[name])) for name in names}
    dtypes[result] = str(_do(line, stand_ins).dtype).removeprefix("torch.")
    return line


def _do(line: Line, values: dict[str, torch.Tensor]) -> torch.Tensor:
    name, _, first, *rest = line
    if name == "leaf":
        dtype: torch.dtype = getattr(torch, first)
        return torch.ones(3, dtype=dtype, requires_grad=rest[0])
    if name == "to":
        return values[first].to(getattr(torch, rest[0]))
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    return function(values[first], *[values[other] for other in rest])


def _recorded(program: Program) -> list[bool] | Raises:
    """Run the program; of every name, whether it has a grad_fn when it is made."""
    values: dict[str, torch.Tensor] = {}
    modes = [True]
    found: list[bool] = []
    for line in program:
        if line[0] == "enter":
            modes.append(line[1] == "enable_grad")
        elif line[0] == "exit":
            modes.pop()
        else:
            with torch.set_grad_enabled(modes[-1]):
                try:
                    values[line[1]] = _do(line, values)
                except RuntimeError:
                    return Raises(RuntimeError)
            found.append(values[line[1]].grad_fn is not None)
    return found


def _shorter_programs(program: Program) -> Iterator[tuple[Program]]:
    for at, line in enumerate(program):
        rest = program[:at] + program[at + 1 :]
        if line[0] == "enter":
            depth = 0
            for place in range(at, len(program)):
                depth += {"enter": 1, "exit": -1}.get(program[place][0], 0)
                if depth == 0:
                    yield (program[:at] + program[at + 1 : place] + program[place + 1 :],)
                    break
        elif line[0] != "exit" and not any(line[1] in _read_by(later) for later in rest[at:]):
            yield (rest,)


def _read_by(line: Line) -> tuple[str, ...]:
    """The names a line reads."""
    if line[0] in ("leaf", "enter", "exit"):
        return ()
    return line[2:3] if line[0] == "to" else line[2:]


def _as_source(program: Program) -> str:
    words = []
    for line in program:
        name = line[0]
        if name == "enter":
            words.append(f"with {line[1]}(): [")
        elif name == "exit":
            words.append("]")
        elif name == "leaf":
            words.append(f"{line[1]} = ones(3, {line[2]}, requires_grad={line[3]})")
        else:
            words.append(f"{line[1]} = {name}({', '.join(line[2:])})")
    return " ; ".join(words)


def _wrong_line(evidence: Evidence) -> Line:
    """The first line whose answer is wrong, () when that cannot be told."""
    named = [line for line in evidence.inputs[0] if line[0] not in ("enter", "exit")]
    if isinstance(evidence.value, (list, tuple)) and isinstance(evidence.right, list):
        for line, ours, right in zip(named, evidence.value, evidence.right, strict=False):
            if ours != right:
                return tuple(line)
    return ()


def _wrong_at(*names: str) -> Callable[[Evidence], bool]:
    return lambda evidence: _wrong_line(evidence)[:1] in [(name,) for name in names]


graph_or_no_graph = Exercise(
    id="introduction.graph_or_no_graph",
    statement=(
        "Write graph_or_no_graph(program): one bool per line that makes a tensor, True when it has "
        "a grad_fn right after that line. Lines: ('leaf', name, dtype, requires_grad), "
        "('add' | 'mul' | 'gt', name, a, b), "
        "('exp' | 'sign' | 'clone' | 'sum' | 'detach' | 'argmax', name, a), "
        "('to', name, a, dtype), ('enter', 'no_grad' | 'enable_grad') and ('exit',). Raise "
        "RuntimeError when a leaf that is not of a float dtype asks for gradients."
    ),
    rules=("do not run the program: no torch, no NumPy, no labkit",),
    case=_a_program,
    expected=_recorded,
    smaller=_shorter_programs,
    show=_as_source,
    cases=200,
    minutes=15,
    difficulty=2,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        "Recording needs three things: grad mode on, a differentiable dtype, an input that "
        "requires grad. Which one is missing in: {input}",
        Hint(
            "A leaf that asks for gradients still has no grad_fn: nothing computed it.",
            when=_wrong_at("leaf"),
        ),
        Hint(
            "The failing program casts: to() with the dtype a tensor already has returns that very "
            "tensor, and a cast to an integer dtype ends the graph.",
            when=_wrong_at("to"),
        ),
        Hint(
            "gt answers in bools and argmax in integers: neither can carry a gradient.",
            when=_wrong_at("gt", "argmax"),
        ),
        Hint(
            "The failing program has a detach before the line you got wrong: its result requires "
            "nothing, whatever it was made from.",
            when=lambda evidence: any(line[0] == "detach" for line in evidence.inputs[0]),
        ),
        Hint(
            "What counts is the grad mode at the line itself; the innermost block decides.",
            when=lambda evidence: any(line[0] == "enter" for line in evidence.inputs[0]),
        ),
        "Propagate two flags per name through the program: requires_grad, and has a grad_fn. They "
        "differ for leaves.",
    ),
    must_fail=(
        "always true",
        "true whenever any leaf requires grad",
        "ignores no_grad",
        "ignores integer dtypes",
        "executes the program with torch (banned by a recording mode)",
        "remembers the answer of the first random case and returns it for all later cases",
        "catches every exception and returns a default",
    ),
)


# numpy_twin

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}


def _an_expression(rng: Rng, size: int) -> tuple[Any, ...]:
    if rng.chance(0.3):
        return (_an_arithmetic(rng, size),)
    rank = rng.randint(0 if rng.chance(0.1) else 1, 1 + size // 2)
    sizes = tuple(rng.randint(0 if rng.chance(0.08) else 1, 4) for _ in range(rank))
    if rank >= 3 and sizes[0] and sizes[2] and rng.chance(0.3):
        return (("index", sizes, _split_index(rng, sizes)),)
    used = rng.randint(1, rank + 1 if rng.chance(0.08) else max(1, rank))
    list_at = rng.randint(0, used - 1) if rng.chance(0.5) else -1
    index: list[Any] = []
    for dim in range(used):
        length = sizes[dim] if dim < rank else 2
        if dim == list_at and length:
            index.append(_a_list(rng, length))
        elif rng.chance(0.35):
            index.append(_an_integer(rng, length))
        else:
            index.append(_a_slice(rng))
    return (("index", sizes, tuple(index)),)


def _split_index(rng: Rng, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """An integer, a slice and a list in one of the orders in which the slice may split them."""
    parts: list[Any] = [_an_integer(rng, sizes[0]), _a_slice(rng, 0.1), _a_list(rng, sizes[2])]
    if rng.chance(0.4):
        parts = [_a_list(rng, sizes[0]), _a_slice(rng, 0.1), _an_integer(rng, sizes[2])]
    if len(sizes) > 3:
        parts.append(rng.choice((_a_slice(rng, 0.1), _an_integer(rng, sizes[3]))))
    return tuple(parts)


def _an_integer(rng: Rng, length: int) -> int:
    """An index into `length` elements, rarely one just outside."""
    if length == 0 or rng.chance(0.05):
        return rng.choice((-length - 1, length))
    return rng.randint(-length, length - 1)


def _a_list(rng: Rng, length: int) -> list[int]:
    return [_an_integer(rng, length) for _ in range(rng.randint(1, 3))]


def _a_slice(rng: Rng, negative: float = 0.2) -> slice:
    start, stop = (rng.choice((None, None, rng.randint(-5, 5))) for _ in range(2))
    step = rng.choice((-1, -2)) if rng.chance(negative) else rng.choice((None, None, 1, 2, 3))
    return slice(start, stop, 0 if rng.chance(0.03) else step)


def _an_arithmetic(rng: Rng, size: int) -> tuple[Any, ...]:
    shape = tuple(rng.randint(0 if rng.chance(0.1) else 1, 4) for _ in range(rng.randint(0, 3)))
    other = tuple(1 if rng.chance(0.2) else length for length in shape[rng.randint(0, 3) :])
    if rng.chance(0.25):
        other = rng.sizes(rank=1 + size // 3, largest=3)
    value = rng.choice((-2, -1, 0, 0, 1, 3))
    pair = (shape, other) if rng.chance(0.6) else (other, shape)
    return "arithmetic", pair[0], rng.choice(tuple(OPERATORS)), pair[1], value


def _outcome(compute: Callable[[], Any]) -> tuple[int, ...] | None:
    """The shape of a result, None when it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return tuple(compute().shape)
        except Exception:
            return None


def _compared(expression: tuple[Any, ...]) -> tuple[str, int]:
    if expression[0] == "index":
        _, sizes, index = expression
        ours = _outcome(lambda: torch.zeros(sizes)[index])
        theirs = _outcome(lambda: np.zeros(sizes)[index])
    else:
        _, sizes, operator, other, value = expression
        do = OPERATORS[operator]
        ours = _outcome(lambda: do(torch.full(sizes, 3), torch.full(other, value)))
        theirs = _outcome(lambda: np.asarray(do(np.full(sizes, 3), np.full(other, value))))
    if ours == theirs:
        return ("raise alike" if ours is None else "agree"), 0
    if expression[0] == "arithmetic":
        return "differ", 4 if theirs is None else 3
    if ours is None:
        return "differ", 1
    return "differ", 5 if theirs is None else 2


def _as_expression(expression: tuple[Any, ...]) -> str:
    if expression[0] == "arithmetic":
        _, sizes, operator, other, value = expression
        return f"full({sizes}, 3) {operator} full({other}, {value})   {expression}"
    parts = []
    for part in expression[2]:
        if isinstance(part, slice):
            ends = [part.start, part.stop, part.step]
            texts = ["" if end is None else str(end) for end in ends]
            parts.append(":".join(texts if texts[2] else texts[:2]))
        else:
            parts.append(repr(part))
    return f"zeros({expression[1]})[{', '.join(parts)}]   {expression}"


def _smaller_expressions(expression: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if expression[0] == "index":
        kind, sizes, index = expression
        for dim in range(min(len(sizes), len(index))):
            if len(index) > 1:
                yield ((kind, sizes[:dim] + sizes[dim + 1 :], index[:dim] + index[dim + 1 :]),)
            if index[dim] != slice(None):
                yield ((kind, sizes, (*index[:dim], slice(None), *index[dim + 1 :])),)
        if len(sizes) > len(index):
            yield ((kind, sizes[:-1], index),)
    else:
        kind, sizes, operator, other, value = expression
        if sizes:
            yield ((kind, sizes[1:], operator, other, value),)
        if other:
            yield ((kind, sizes, operator, other[1:], value),)


def _rule_is(rule: int) -> Callable[[Evidence], bool]:
    return lambda evidence: isinstance(evidence.right, tuple) and evidence.right[1] == rule


numpy_twin = Exercise(
    id="introduction.numpy_twin",
    statement=(
        "Write numpy_twin(expression) -> (verdict, rule). An expression is ('index', sizes, index) "
        "for zeros(sizes)[index] with a tuple of integers, slices and at most one list of "
        "integers (never on an axis of size 0), or ('arithmetic', sizes, operator, other_sizes, "
        "value) for full(sizes, 3) operator full(other_sizes, value) on int64, operator one of "
        "+ * // % **. The verdict is "
        "'agree' (both give a result of the same shape), 'raise alike' (both raise), or 'differ'; "
        "the rule is the number of the one that parts them, 0 unless they differ."
    ),
    rules=("work the shapes out yourself: no torch, no NumPy, no labkit",),
    case=_an_expression,
    expected=_compared,
    smaller=_smaller_expressions,
    show=_as_expression,
    cases=400,
    minutes=35,
    difficulty=4,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        "Both libraries are right about their own rules: write down what each of them does with "
        "{input}, and only then compare.",
        Hint("Your answer is wrong for an expression with a negative step.", when=_rule_is(1)),
        Hint(
            "Where advanced indices are separated, the axis order differs when one of them is an "
            "integer: NumPy counts it as an index list of one, torch drops its axis first. If the "
            "two shapes are equal by chance, they agree.",
            when=lambda evidence: (
                evidence.inputs[0][0] == "index"
                and any(isinstance(part, list) for part in evidence.inputs[0][2])
                and any(isinstance(part, int) for part in evidence.inputs[0][2])
            ),
        ),
        Hint(
            "A complaint about a value needs a value: what is the shape of the result here, and "
            "has it any element?",
            when=lambda evidence: 0 in evidence.inputs[0][1] or _rule_is(5)(evidence),
        ),
        Hint(
            "Both raise when there are too many indices, an integer is outside, a step is 0 or the "
            "shapes do not broadcast. Two different exceptions still count as alike.",
            when=lambda evidence: evidence.right == ("raise alike", 0),
        ),
        "Work out one shape or None per library, with len(range(*slice.indices(size))) for a "
        "slice. Then: equal or not, and which of the two is None.",
    ),
    must_fail=(
        "always agree",
        "treats every raise as differ",
        "compares values but not shapes",
        "hard-codes the two printed examples",
        "returns the literal answer of the example in the statement",
        "remembers the answer of the first random case and returns it for all later cases",
        "reads the expected value out of the checker (module globals, frames or closure)",
    ),
)


# two_process_sum

PREPARED: list[bool] = []


class Witness(TorchDispatchMode):  # type: ignore[misc]
    """Writes down, in the process it sees it in, every all-reduce and whether a group is left."""

    def __init__(self, log: str) -> None:
        super().__init__()
        self.log = log

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.c10d.allreduce_.default:
            store = dist.distributed_c10d._get_default_store()
            while hasattr(store, "underlying_store"):
                store = store.underlying_store
            port = getattr(store, "port", None)
            self.note(kind="reduced", rank=dist.get_rank(), of=dist.get_world_size(), port=port)
        return func(*args, **(kwargs or {}))

    def note(self, **facts: Any) -> None:
        """Append one fact; a line this short is written in one piece."""
        with Path(self.log).open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), **facts}) + "\n")

    def ended(self) -> None:
        """The process ends; an interpreter and a forked child tell in different ways."""
        self.note(kind="ended", left=dist.is_initialized())


class Number:
    """What each process adds: number(rank) is rank + 1. Call it in the process of that rank."""

    def __init__(self, log: str) -> None:
        self.log, self.owner = log, os.getpid()

    def __call__(self, rank: int) -> int:
        """Rank plus one; from now on this process is watched, unless it is the notebook's own."""
        witness = Witness(self.log)
        if os.getpid() == self.owner:
            witness.note(kind="called at home")
            return rank + 1
        witness.__enter__()
        atexit.register(witness.ended)
        multiprocessing.util.Finalize(witness, witness.ended, exitpriority=1)
        return rank + 1


def _a_world(rng: Rng, size: int) -> tuple[int]:
    if not PREPARED:
        with Witness(""):  # its first operator imports eight hundred modules: not on the clock
            torch.ones(1)
        PREPARED.append(True)
    return (size + 2 if rng.chance(0.7) else rng.randint(2, 4),)


def _two_runs(world_size: int) -> dict[str, Any]:
    one = {
        "sums": [world_size * (world_size + 1) // 2] * world_size,
        "ranks that reduced": list(range(world_size)),
        "processes that reduced": world_size,
        "numbers asked for in the notebook's own process": 0,
        "groups left initialised": 0,
        "processes left": 0,
    }
    return {"first run": one, "second run": one}


def _drive_twice(answer: Any, world_size: int) -> dict[str, Any]:
    """Run it, take the port it used, and run it again: nothing may be left in its way."""
    with contextlib.ExitStack() as cleanup:
        folder = cleanup.enter_context(tempfile.TemporaryDirectory())
        first, ports = seen_run(answer, world_size, f"{folder}/first")
        for port in ports:
            cleanup.enter_context(taken(port))
        second, _ = seen_run(answer, world_size, f"{folder}/second")
    return {"first run": first, "second run": second}


@handed_out
def taken(port: int) -> socket.socket:
    """A socket of someone else's on this port; a port still in use is as good as taken."""
    both = socket.has_dualstack_ipv6()
    listener = socket.socket(socket.AF_INET6 if both else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past a closed connection
    with contextlib.suppress(OSError):
        if both:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("", port))
        listener.listen()
    return listener


@handed_out
def seen_run(answer: Any, world_size: int, log: str) -> tuple[dict[str, Any], set[int]]:
    """One run as (what was seen of it, the ports it used); whatever it leaves is removed."""
    before = {child.pid for child in multiprocessing.active_children()}
    Path(log).touch()
    try:
        sums = answer(world_size, Number(log))
    finally:
        with undisturbed():  # what ran out of time must not cut this short
            notes = [json.loads(line) for line in Path(log).read_text().splitlines()]
            pids = {note["pid"] for note in notes} - {os.getpid()}
            started = {child.pid for child in multiprocessing.active_children()} - before
            left = [pid for pid in pids | started if pid is not None and still_there(pid)]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    still_there(pid)  # collects it
            left_here = dist.is_initialized()
            if left_here:
                dist.destroy_process_group()
    reduced = [note for note in notes if note["kind"] == "reduced"]
    seen = {
        "sums": sums,
        "ranks that reduced": sorted(n["rank"] for n in reduced if n["of"] == world_size),
        "processes that reduced": len({n["pid"] for n in reduced}),
        "numbers asked for in the notebook's own process": sum(
            note["kind"] == "called at home" for note in notes
        ),
        "groups left initialised": left_here
        + sum(note["left"] for note in notes if note["kind"] == "ended"),
        "processes left": len(left),
    }
    return seen, {note["port"] for note in reduced if note["port"] is not None}


@handed_out
def still_there(pid: int, patience_seconds: float = 0.5) -> bool:
    """Whether a process is there after a moment; one that has ended is collected on the way."""
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return False
        except ChildProcessError:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return False
        time.sleep(0.01)
    return True


def _as_calls(world_size: int) -> str:
    return f"two_process_sum({world_size}, number), twice"


def _says(text: str) -> Callable[[Evidence], bool]:
    return lambda evidence: text in evidence.property


two_process_sum = Exercise(
    id="introduction.two_process_sum",
    statement=(
        "Write two_process_sum(world_size, number) -> list of int. Start world_size processes, 2 "
        "to 4, that form one gloo group. The process of each rank calls number(rank), which is "
        "rank + 1, puts it into a tensor and all-reduces it. Return what each of them got, in "
        "order of rank: [3, 3] for two. The notebook's own process is none of them. Every process "
        "destroys its group and has ended when you return, and calling it again works, even when "
        "someone else has taken a port that you used."
    ),
    rules=("the reduction is done by torch.distributed with gloo, in processes you start",),
    case=_a_world,
    expected=_two_runs,
    drive=_drive_twice,
    show=_as_calls,
    cases=3,
    sizes=2,
    seconds=20.0,  # its processes import torch where they are not forked
    minutes=25,
    difficulty=3,
    processes=True,
    hints=(
        "Join every process, and destroy the group in finally.",
        Hint(
            "The second run failed: what is still bound? Let the rendezvous use a file in a "
            "temporary folder (FileStore) instead of a port.",
            when=lambda evidence: evidence.kind == "raised",
        ),
        "Someone waits for ever? The group forms when world_size processes have come: how many "
        "did you start? And in the second run, is a port taken that you need again? A timeout "
        "given to init_process_group turns waiting into an error.",
        Hint(
            "A group was still initialised when its process ended, or is in the notebook's own "
            "process. Each process that joins one calls destroy_process_group() before it ends; "
            "in finally it does so after an error too.",
            when=_says("left initialised"),
        ),
        Hint("A process outlived your function: join each of them.", when=_says("processes left")),
        Hint(
            "No all-reduce was seen in enough processes of their own: call number(rank) in the "
            "process that reduces, not before you start it.",
            when=_says("reduced"),
        ),
        "A function of a notebook exists only in this process, so use "
        "multiprocessing.get_context('fork'): a forked child carries it along. A SimpleQueue "
        "brings (rank, sum) back.",
    ),
    must_fail=(
        "computes the sum in the parent",
        "runs one process with world size 1",
        "leaves the group initialised",
        "fixed port so the second run fails",
        "returns only rank 0",
        "returns the literal answer of the example in the statement",
        "is right on small cases and exceeds the size limit on large ones (quadratic, recursive "
        "or waiting for ever)",
    ),
)

EXERCISES = (graph_or_no_graph, numpy_twin, two_process_sum)
