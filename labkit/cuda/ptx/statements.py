"""Finds `asm("..." : outputs : inputs);` and takes it apart."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.cuda.source import closing, pieces

_GAP = r"(?:\s|\\\n)*"
_ASM = re.compile(
    rf"\b(?:asm|__asm__|__asm)\b{_GAP}(?:(?:volatile|__volatile__|inline)\b{_GAP})*(?=\()"
)
_STRING = re.compile(r'R"([^()\\\s]{0,16})\((.*?)\)\1"|"((?:\\.|[^"\\\n])*)"', re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPERAND = re.compile(r'\s*(?:\[\s*(\w+)\s*\]\s*)?"([^"]*)"\s*\((.*)\)\s*$', re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\n"}


class NotPtx(Exception):
    """What of an `asm` statement the emulator cannot take, in words."""


@dataclass(frozen=True)
class Operand:
    """`"=r"(x)`: a variable of the kernel that the PTX text calls `%0` or `%[name]`."""

    constraint: str
    expression: str
    name: str

    @property
    def is_written(self) -> bool:
        """An output, or both."""
        return self.constraint[0] in "=+"


@dataclass(frozen=True)
class Statement:
    """One `asm` statement: the text between its quotes, joined, and its operands."""

    template: str
    operands: tuple[Operand, ...]


def places(stripped: str) -> Iterator[tuple[int, int]]:
    """(start, end) of every `asm` statement in a blanked text, its closing bracket included."""
    for match in _ASM.finditer(stripped):
        yield match.start(), closing(stripped, match.end(), "()") + 1


def read_statement(code: str, stripped: str, start: int, end: int) -> Statement:
    """The statement that stands there.

    Raises   NotPtx   its text is more than string literals
    """
    sections = pieces(stripped, "([{", ":", stripped.index("(", start) + 1, end - 1)
    operands = tuple(
        _operand(code[first:last])
        for section in sections[1:3]
        for first, last in pieces(stripped, "([{", ",", *section)
        if code[first:last].replace("\\\n", "").strip()
    )
    return Statement(_joined(code[slice(*sections[0])]), operands)


def _joined(text: str) -> str:
    """What adjacent string literals say."""
    rest = _COMMENT.sub(" ", _STRING.sub(" ", text)).replace("\\\n", " ").strip()
    if rest:
        raise NotPtx(f"text that is put together by the preprocessor ({rest})")
    pieces = []
    for match in _STRING.finditer(text):
        if match[2] is not None:
            pieces.append(match[2])
        else:
            pieces.append(re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), match[3]))
    return "".join(pieces)


def _operand(text: str) -> Operand:
    match = _OPERAND.match(text.replace("\\\n", " "))
    if match is None:
        raise NotPtx(f"the operand {' '.join(text.split())}")
    return Operand(match[2].strip(), " ".join(match[3].split()), match[1] or "")
