"""The symbol table of a compiled file: names, and where they are."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, UNDEFINED, _LOCAL = 2, 0, 0
OBJECT, FUNCTION, FILE, TLS = 1, 2, 4, 6


class Symbol(NamedTuple):
    """One entry of an ELF file's .symtab; a local name stands behind its source file's."""

    name: str
    offset: int
    size: int
    kind: int
    section: int


def symbols(path: Path) -> Iterator[Symbol]:
    """Every symbol of a 64-bit little-endian ELF file, local ones included."""
    data = path.read_bytes()
    (start,) = struct.unpack_from("<Q", data, 0x28)
    (count,) = struct.unpack_from("<H", data, 0x3C)
    sections = [_SECTION.unpack_from(data, start + i * _SECTION.size) for i in range(count)]
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        names, source = sections[section[6]][4], ""
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, info, _, index, value, size = _SYMBOL.unpack_from(data, at)
            end = data.index(b"\0", names + name)
            text = data[names + name : end].decode()
            source = text if info & 15 == FILE else source
            text = f"{source}:{text}" if text and info >> 4 == _LOCAL else text
            yield Symbol(text, value, size, info & 15, index)


def undefined_thread_locals(path: Path) -> list[str]:
    """What an object file expects to find as thread-local memory elsewhere."""
    found = (one for one in symbols(path) if one.section == UNDEFINED and one.kind == TLS)
    return list(dict.fromkeys(one.name for one in found))
