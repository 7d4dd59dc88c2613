"""Reads PTX: the text of an `asm` statement as instructions, declarations and braces."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.cuda.ptx.statements import NotPtx
from labkit.cuda.source import pieces

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PERCENT = re.compile(r"%%|%(?=[A-Za-z_])")
_INSTRUCTION = re.compile(r"(?:@(!?)\s*([\w%$]+)\s+)?([a-zA-Z][\w.:]*)\s*(.*)$", re.DOTALL)
_LABEL = re.compile(r"[\w$]+\s*:(?!:)")


@dataclass(frozen=True)
class Instruction:
    """One line of PTX.

    guard      the predicate it hangs on, or nothing; `unless` turns it round
    opcode     `ld.global.v4.f32`
    operands   as written, a list in braces or an address in brackets being one
    """

    guard: str
    unless: bool
    opcode: str
    operands: tuple[str, ...]

    @property
    def parts(self) -> list[str]:
        """What stands between the opcode's dots."""
        return self.opcode.split(".")


@dataclass(frozen=True)
class Registers:
    """`.reg .b32 a, b<2>;`"""

    type: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Brace:
    """`{` or `}`, which limit how far registers are known."""

    text: str


def read(template: str) -> Iterator[Instruction | Registers | Brace]:
    """What the text says, in order. A special register is left as `$name`, with one % or two.

    Raises   NotPtx   a label or a directive other than .reg
    """
    text = _COMMENT.sub(" ", template)
    text = _PERCENT.sub("$", text).strip()
    while text:
        if text[0] in "{}":
            yield Brace(text[0])
            text = text[1:].strip()
            continue
        said, _, text = text.partition(";")
        text = text.strip()
        if said.strip():
            yield _one(" ".join(said.split()))


def _one(said: str) -> Instruction | Registers:
    if _LABEL.match(said):
        raise NotPtx("labels and jumps")
    if said.startswith(".reg"):
        _, kind, names = said.split(maxsplit=2)
        return Registers(kind.lstrip("."), tuple(_numbered(names)))
    match = _INSTRUCTION.match(said)
    if match is None:
        raise NotPtx(said.split()[0])
    unless, guard, opcode, rest = match.groups()
    return Instruction(guard or "", bool(unless), opcode.rstrip("."), tuple(_operands(rest)))


def _numbered(names: str) -> Iterator[str]:
    """The registers that `a, b<2>` declares: a, b0, b1."""
    for name in names.split(","):
        match = re.match(r"\s*([\w$%]+)\s*(?:<(\d+)>)?\s*$", name)
        if match is None:
            raise NotPtx(f".reg {names}")
        if match[2]:
            yield from (f"{match[1]}{i}" for i in range(int(match[2])))
        else:
            yield match[1]


def _operands(text: str) -> list[str]:
    written = [text[slice(*place)].strip() for place in pieces(text, "[{")]
    return written if written[-1] else written[:-1]
