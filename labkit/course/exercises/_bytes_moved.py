"""What one expression reads, writes and holds at its peak, in bytes."""

import functools
from typing import Any

import torch

from labkit.course.exercise import (
    Evidence,
    Exercise,
    Hint,
    Rng,
    Stage,
)
from labkit.course.exercises._never_right import FIRST
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice

DTYPES = ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64")
OPERATIONS = ("add", "mul", "lt", "eq")
MOST_ELEMENTS = 100_000
"""Every tensor stays under 1 MiB: in the small pool the allocator hands out nothing but what was
asked for, rounded up to 512 bytes."""


def _a_tree(rng: Rng, size: int) -> tuple[Any]:
    full: list[int] = []
    for _ in range(rng.randint(0, 4)):
        full.append(rng.choice((1, 2, 3, 5, 17, 40, 64, 200)))
    while functools.reduce(lambda a, b: a * b, full, 1) > MOST_ELEMENTS:
        full.pop()
    if full and rng.chance(0.06):
        full[rng.randint(0, len(full) - 1)] = 0
    return (_grow(rng, 1 + rng.randint(0, size), full),)


def _grow(rng: Rng, operations: int, full: list[int], may_be_number: bool = False) -> Any:
    """An expression with so many operations; every leaf broadcasts to the full shape."""
    if operations == 0:
        if may_be_number and rng.chance(0.2):
            return ("number", rng.choice((True, 3, -7, 0.5)))
        kept = full[rng.randint(0, len(full)) :] if rng.chance(0.4) else full
        sizes = tuple(1 if rng.chance(0.3) else n for n in kept)
        return ("tensor", sizes, rng.choice(DTYPES))
    left = rng.randint(0, operations - 1)
    return (
        rng.choice(OPERATIONS),
        _grow(rng, left, full),
        _grow(rng, operations - 1 - left, full, may_be_number=True),
    )


def _recorded(tree: Any) -> dict[str, int]:
    """By running it: shapes and dtypes by torch without memory, bytes by labkit's allocator."""
    allocator = CachingAllocator(SimulatedDevice(1 << 40))
    bytes_read = bytes_written = 0

    def run(node: Any) -> tuple[Any, int]:
        nonlocal bytes_read, bytes_written
        kind, *rest = node
        if kind == "number":
            return rest[0], 0
        if kind == "tensor":
            return torch.empty(rest[0], dtype=getattr(torch, rest[1]), device="meta"), 0
        operands = [run(child) for child in rest]
        result = getattr(torch, kind)(*[value for value, _ in operands])
        if result.numel():
            tensors = [value for value, _ in operands if isinstance(value, torch.Tensor)]
            bytes_read += sum(tensor.nbytes for tensor in tensors)
        bytes_written += result.nbytes
        address = allocator.malloc(result.nbytes)
        for _, held in operands:
            if held:
                allocator.free(held)
        return result, address

    run(tree)
    peak = allocator.memory_stats()["allocated_bytes.all.peak"]
    return {"read": bytes_read, "written": bytes_written, "peak": peak}


def _subtrees(tree: Any) -> Any:
    for child in tree[1:]:
        if child[0] in OPERATIONS:
            yield (child,)


def _figure(name: str, test: Any) -> Any:
    """True where one of the three figures stands to the right one as the test says."""

    def when(evidence: Evidence) -> bool:
        return bool(test(evidence.value[name], evidence.right[name]))

    return when


def _has_an_empty_result(tree: Any) -> bool:
    """Whether some operation of the expression makes no element."""
    inside = any(_has_an_empty_result(part) for part in tree[1:] if part[0] in OPERATIONS)
    return inside or _recorded(tree)["written"] == 0


_reads_too_much = _figure("read", lambda got, right: got > right)


def _numbers(tree: Any) -> bool:
    """Whether a Python number stands in the expression."""
    return tree[0] == "number" or (tree[0] != "tensor" and any(map(_numbers, tree[1:])))


def _operations(tree: Any) -> int:
    if tree[0] in ("tensor", "number"):
        return 0
    return 1 + sum(_operations(part) for part in tree[1:])


def _rounds_what_it_writes(evidence: Evidence) -> bool:
    up = _figure("written", lambda got, right: got > right and got % 512 == 0 and right % 512 != 0)
    return bool(up(evidence))


output_bytes = Exercise(
    id="broadcasting.output_bytes",
    stages=(
        Stage("one operation", only=lambda tree: _operations(tree) == 1 and not _numbers(tree)),
        Stage("numbers", only=lambda tree: _operations(tree) == 1 and _numbers(tree)),
        Stage("trees"),
    ),
    rules=("torch on device='meta' may tell you dtypes and shapes; no labkit.memory",),
    case=_a_tree,
    expected=_recorded,
    smaller=_subtrees,
    cases=240,
    seconds=10.0,  # the first call on the meta device imports for seconds
    sizes=6,
    minutes=15,
    banned=("labkit.memory.*",),
    hints=(
        Hint(
            "A result here is empty: its loop visits no place, so that operation reads nothing. "
            "result.numel() tells.",
            when=lambda e: _reads_too_much(e) and _has_an_empty_result(*e.inputs),
        ),
        Hint(
            "You read too much. Each operand counts once, at its own size: a stretched cell is "
            "visited again and again, but it is one cell in memory.",
            when=lambda e: _reads_too_much(e) and not _has_an_empty_result(*e.inputs),
        ),
        Hint(
            "The peak is no multiple of 512. The allocator rounds every result up before it hands "
            "it out.",
            when=_figure("peak", lambda got, right: got % 512 != 0),
        ),
        Hint(
            "The peak is too high. Walk in the order of evaluation: left, right, allocate the "
            "result, then free the operands that were results themselves.",
            when=_figure("peak", lambda got, right: got > right),
        ),
        Hint(
            "The peak is too low. While an operation runs, its operands and its result are all "
            "there; and a finished left operand waits while the right one is computed.",
            when=_figure("peak", lambda got, right: got < right),
        ),
        Hint(
            "Written are the result's own bytes, result.nbytes. What a result holds is rounded up, "
            "for the peak alone.",
            when=_rounds_what_it_writes,
        ),
        Hint(
            "Each result is written once, in the dtype of the result: bool for lt and eq, the "
            "promoted dtype otherwise.",
            when=_figure("written", lambda got, right: got != right),
        ),
        "Take the three figures one at a time, in the order read, written, peak. Which is wrong "
        "in {input}? Expected {expected}, got {got}.",
        "Write a recursive function that returns what is left of a node: its sizes, its dtype, "
        "and the bytes its result holds.",
    ),
    must_fail=(
        "counts inputs at expanded size",
        "keeps all intermediates alive",
        "ignores dtype promotion",
        "ignores the 512-byte granule",
        "rounds what is written",
        "counts the result once per operand",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        FIRST,
    ),
)
