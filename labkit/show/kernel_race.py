"""A schedule that goes wrong, as steps a reader walks: who touched which word, in what order."""

import re
import struct
from collections.abc import Sequence
from typing import Any

from labkit.cuda.report import Finding, Report, Step, element
from labkit.cuda.witness import Witness

_FORMATS = {
    "float": "f", "double": "d", "int": "i", "unsigned": "I", "unsigned int": "I", "char": "b",
    "unsigned char": "B", "short": "h", "unsigned short": "H", "long long": "q",
    "unsigned long long": "Q", "int32_t": "i", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q",
    "__half": "e", "half": "e",
}  # fmt: skip
_TYPE = "|".join(sorted(map(re.escape, _FORMATS), key=len, reverse=True))
_POISON = 0xFF
"""What shared memory holds at the start of a block."""

Word = tuple[str, int, int]


def played(witness: Witness, report: Report) -> dict[str, Any]:
    """The witness's steps with the words they touch, and the finding of the report they prove."""
    steps = witness.report.steps
    words: dict[Word, int] = {}
    for step in steps:
        words.setdefault(_word(step), len(words))
    wrong = ", ".join(
        f"{one.array}[{one.index}] is {_short(one.got)}, not {_short(one.expected)}"
        for one in witness.wrong[:2]
    )
    follow = _word_lost(report, steps, words)
    if follow < 0:
        follow = _word_found(report, words)
    if follow < 0:
        follow = _first_collision(steps, words)
    lines = {step.line for step in steps if follow < 0 or words[_word(step)] == follow}
    return {
        "finding": _proved(report, steps, lines),
        "title": f"schedule {witness.seed} ({witness.order})",
        "result": f"At the end {wrong}.",
        "follow": follow,
        "words": [_name(report, word) for word in words],
        "steps": [
            {
                "word": words[_word(step)],
                "line": step.line,
                "access": step.access,
                "block": list(step.block),
                "thread": list(step.thread),
                "before": _value(report, step, step.before),
                "after": _value(report, step, step.after),
                "stale": step.stale,
            }
            for step in steps
        ],
    }


def _word(step: Step | Finding) -> Word:
    return step.array, step.offset, step.size


def _who(step: Step) -> tuple[Any, ...]:
    return step.block, step.thread


def _word_lost(report: Report, steps: Sequence[Step], words: dict[Word, int]) -> int:
    """The first word of a raced array that is overwritten unread, and read after, else -1."""
    raced = {one.array for one in report.findings if one.kind == "race"}
    unread: set[Word] = set()
    lost: set[Word] = set()
    for step in steps:
        word = _word(step)
        if step.access == "read":
            if word in lost:
                return words[word]
            unread.discard(word)
        elif step.array in raced:
            (lost if word in unread else unread).add(word)
    return -1


def _word_found(report: Report, words: dict[Word, int]) -> int:
    """The word that a race of the report names, where the schedule touches it, else -1."""
    races = (one for one in report.findings if one.kind == "race")
    return next((words[at] for at in map(_word, races) if at in words), -1)


def _first_collision(steps: Sequence[Step], words: dict[Word, int]) -> int:
    """The word on which two threads first meet with a write between them, else -1 for all."""
    seen: dict[Word, list[Step]] = {}
    for step in steps:
        others = [one for one in seen.setdefault(_word(step), []) if _who(one) != _who(step)]
        if any("read" not in (one.access, step.access) or one.access != step.access
               for one in others):  # fmt: skip
            return words[_word(step)]
        seen[_word(step)].append(step)
    return -1


def _proved(report: Report, steps: Sequence[Step], lines: set[int]) -> int:
    """The race of the report between the lines of these steps, -1 when none is."""
    races = [(n, one) for n, one in enumerate(report.findings) if one.kind == "race"]
    arrays = {step.array for step in steps}
    fits = [n for n, one in races if set(one.lines) <= lines and one.array in arrays]
    touching = [n for n, one in races if one.array in arrays]
    return next(iter([*fits, *touching]), -1)


def _format(report: Report, array: str, size: int) -> str | None:
    if not array:
        return None
    pattern = rf"\b({_TYPE})\b[\s*&]*(?:__restrict__\s+)?{re.escape(array)}\b"
    name = re.escape(report.kernel.partition("<")[0])
    head = re.search(rf"\b{name}\s*\(", report.source)  # names repeat from kernel to kernel
    own = report.source[head.start() :].partition("__global__")[0] if head else ""
    declared = re.search(pattern, own) or re.search(pattern, report.source)
    letter = _FORMATS[declared[1]] if declared else None
    return letter if letter and struct.calcsize(letter) == size else None


def _value(report: Report, step: Step, bits: int) -> str:
    """The word as its type writes it; bits where the type is not known, or never written."""
    raw = (bits & ((1 << 8 * step.size) - 1)).to_bytes(step.size, "little")
    if set(raw) == {_POISON} and step.array not in report.arrays:
        return "never written"
    letter = _format(report, step.array, step.size)
    if letter is None:
        return f"0x{raw[::-1].hex()}"
    (value,) = struct.unpack(f"<{letter}", raw)
    return _short(value)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _name(report: Report, word: Word) -> str:
    array, offset, size = word
    if _format(report, array, size) and offset % size == 0:
        return f"{array}[{offset // size}]"
    return element(array, offset, size)
