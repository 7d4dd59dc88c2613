"""What a finding says: who did what where, and what would cure it."""

import dataclasses

from labkit.cuda.report import Finding, element


def with_sentence(finding: Finding, array_size: int) -> Finding:
    sentence = _SENTENCES.get(finding.kind)
    if sentence:
        finding = dataclasses.replace(finding, message=sentence(finding, array_size))
    return with_caller(finding)


def with_caller(finding: Finding) -> Finding:
    """The kernel's line first, where the finding is in a function that was inlined."""
    called = f"called at {finding.called_at}: " if finding.called_at else ""
    return dataclasses.replace(finding, message=called + finding.message)


def _element(finding: Finding) -> str:
    if finding.message:  # of the heap of malloc and new
        return finding.message
    return element(finding.array, finding.offset, finding.size)


def _race(finding: Finding, array_size: int) -> str:
    same_block = finding.block == finding.other_block
    who, other = f"thread {finding.thread}", f"thread {finding.other_thread}"
    cure = "a barrier must come between the two, or both must be atomic"
    if not same_block:
        who += f" of block {finding.block}"
        other += f" of block {finding.other_block}"
        cure = (
            "blocks run in any order: use an atomic, or a second launch; where an atomic counter "
            "tells who is last, __threadfence() goes before it"
        )
    return (
        f"{who} {_VERBS[finding.access]} {_element(finding)} in {finding.space} memory, "
        f"{other} {_VERBS[finding.other_access]} it at {finding.other_at}, and nothing "
        f"orders them; {cure}"
    )


def _out_of_bounds(finding: Finding, array_size: int) -> str:
    start = f"thread {finding.thread} of block {finding.block} {_VERBS[finding.access]}"
    if finding.message:
        return f"{start} {finding.message}"
    if not finding.array:
        return f"{start} {finding.size} bytes at {finding.address:#x}, which no array holds"
    past = finding.offset + finding.size - array_size
    if finding.offset < 0:
        where = f"{-finding.offset} bytes before the start of {finding.array}"
    elif past > 1 << 20:
        where = f"{finding.address:#x}, far from any array"
    elif finding.offset % finding.size or array_size % finding.size:
        last = finding.offset + finding.size - 1
        where = f"bytes {finding.offset} to {last} of {finding.array}, which has {array_size}"
    else:
        index, count = finding.offset // finding.size, array_size // finding.size
        unit = f"elements of {finding.size} bytes"
        where = f"element {index} of {finding.array}, which has {count} {unit}"
    return f"{start} {where}"


def _uninitialised(finding: Finding, array_size: int) -> str:
    return (
        f"thread {finding.thread} reads {_element(finding)} in shared memory, which no thread of "
        "this block has written"
    )


def _misaligned(finding: Finding, array_size: int) -> str:
    return (
        f"thread {finding.thread} {_VERBS[finding.access]} {finding.size} bytes at "
        f"{_element(finding)}, address {finding.address:#x}, not a multiple of {finding.size}"
    )


_VERBS = {"read": "reads", "write": "writes", "atomic": "updates atomically", "block": "touches"}
_SENTENCES = {
    "race": _race,
    "out_of_bounds": _out_of_bounds,
    "uninitialised": _uninitialised,
    "misaligned": _misaligned,
}
