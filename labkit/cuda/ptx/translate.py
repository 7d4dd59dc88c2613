"""Writes PTX as C++: operands become references, instructions calls of cuemu/ptx.h."""

import re
from collections.abc import Sequence

from labkit.cuda.emulator import diagnose
from labkit.cuda.ptx.instructions import Brace, Instruction, Registers, read
from labkit.cuda.ptx.opcodes import NAMES, SPECIAL_REGISTERS, calls
from labkit.cuda.ptx.statements import NotPtx, Operand, Statement, places, read_statement
from labkit.cuda.source import blanked, edited

REGISTER_TYPES = {
    "r": "unsigned", "l": "unsigned long long", "h": "unsigned short", "f": "float",
    "d": "double", "n": "long long",
}  # fmt: skip
"""Of an operand, by its constraint."""
DECLARED_TYPES = {
    "pred": "bool",
    "f32": "float", "f64": "double",
    **{f"{kind}{bits}": f"unsigned {name}".strip()
       for kind in "bus"
       for bits, name in ((8, "char"), (16, "short"), (32, ""), (64, "long long"))},
}  # fmt: skip
_FLOAT = re.compile(r"0([fF])([0-9a-fA-F]{8})$|0([dD])([0-9a-fA-F]{16})$")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)[uU]?$|-?\d+\.\d*(?:[eE][+-]?\d+)?$")
_OWN = "cuemu_r_"
"""Before a PTX register's name, so that it hides no variable of the kernel's."""


def as_cpp(code: str) -> str:
    """The text with its `asm` statements as C++, line for line.

    What the emulator does not run is a call that no compiler lets pass: in text that the
    preprocessor takes out, it may stand.
    """
    edits: list[tuple[int, int, str]] = []
    stripped = blanked(code)
    for start, end in places(stripped):
        try:
            block = as_block(read_statement(code, stripped, start, end))
        except NotPtx as refused:
            block = _refusal(len(edits), str(refused))
        lines = re.findall(r"\\?\n", code[start:end])
        edits.append((start, end, block + " ".join(["", *lines])))
    return f'#include "cuemu/ptx.h"\n#line 1\n{edited(code, edits)}' if edits else code


def _refusal(number: int, why: str) -> str:
    """A call that diagnose.py turns into the refusal with this reason."""
    said = why.replace("\\", "").replace('"', "'")
    name = f"{diagnose.REFUSED_CALL}{number}"
    declared = f'extern void {name}() __attribute__((error("inline PTX: {said}")));'
    return f"do {{ {declared} {name}(); }} while (0)"


def as_block(statement: Statement) -> str:
    """The statement as one C++ statement, without the semicolon behind it.

    Raises   NotPtx   naming what the emulator does not run
    """
    return _Writer(statement.operands).block(statement.template)


class _Writer:
    """One statement on its way."""

    def __init__(self, operands: Sequence[Operand]) -> None:
        self._operands = operands
        self._registers: list[set[str]] = [set()]

    def block(self, template: str) -> str:
        bound = [self._bound(i, operand) for i, operand in enumerate(self._operands)]
        done = [self._written(one) for one in read(template)]
        return " ".join(["do {", *bound, "{", *done, "} } while (0)"])

    def _bound(self, number: int, operand: Operand) -> str:
        kind = operand.constraint.lstrip("=+&")
        if kind not in REGISTER_TYPES:
            raise NotPtx(f'the constraint "{operand.constraint}"')
        if operand.is_written:
            return f"auto&& cuemu_{number} = ({operand.expression});"
        if kind == "n":
            return f"constexpr auto cuemu_{number} = ({operand.expression});"
        register = REGISTER_TYPES[kind]
        return f"const auto cuemu_{number} = cuemu::ptx::in<{register}>({operand.expression});"

    def _written(self, one: Instruction | Registers | Brace) -> str:
        if isinstance(one, Brace):
            if one.text == "{":
                self._registers.append(set())
            elif len(self._registers) > 1:
                self._registers.pop()
            return one.text
        if isinstance(one, Registers):
            if one.type not in DECLARED_TYPES:
                raise NotPtx(f".reg .{one.type}")
            self._registers[-1].update(one.names)
            names = ", ".join(f"{self._register(name)}{{}}" for name in one.names)
            return f"{DECLARED_TYPES[one.type]} {names};"
        call = calls(one.parts, [self._value(operand) for operand in one.operands])
        if call is None:
            raise NotPtx(NAMES.get(one.parts[0], one.opcode))
        if not one.guard:
            return f"{call};"
        return f"if ({'!' if one.unless else ''}{self._value(one.guard)}) {{ {call}; }}"

    @staticmethod
    def _register(name: str) -> str:
        return _OWN + re.sub(r"\W", "_", name)

    def _value(self, text: str) -> str:
        """An operand in C++; of a list or a pair, with commas between."""
        if text.startswith("{"):
            return ", ".join(self._value(piece.strip()) for piece in text.strip("{} ").split(","))
        if text.startswith("["):
            return self._address(text.strip("[] "))
        if "|" in text:
            return ", ".join(self._value(piece.strip()) for piece in text.split("|"))
        if text.startswith("!"):
            return f"!{self._value(text[1:].strip())}"
        return self._plain(text)

    def _address(self, text: str) -> str:
        base, sign, offset = re.fullmatch(r"([^+]*?)\s*(?:(\+)\s*(.*))?", text).groups()  # type: ignore[union-attr]
        return f"{self._value(base)} + {self._value(offset)}" if sign else self._value(base)

    def _plain(self, text: str) -> str:
        if match := re.fullmatch(r"%(\d+)", text):
            if int(match[1]) < len(self._operands):
                return f"cuemu_{match[1]}"
        elif match := re.fullmatch(r"%\[(\w+)\]", text):
            names = [operand.name for operand in self._operands]
            if match[1] in names:
                return f"cuemu_{names.index(match[1])}"
        elif any(text in scope for scope in self._registers):
            return self._register(text)
        elif match := _FLOAT.match(text):
            kind, bits = ("float", match[2] + "u") if match[1] else ("double", match[4] + "ull")
            return f"cuemu::bits<{kind}>(0x{bits})"
        elif _NUMBER.match(text):
            return text
        elif text == "_":
            return "cuemu::ptx::nothing"
        elif text.startswith("$"):
            if text[1:] in SPECIAL_REGISTERS:
                return SPECIAL_REGISTERS[text[1:]]
            raise NotPtx(f"the special register %{text[1:]}")
        raise NotPtx(f"{text.replace('$', '%')} in an asm statement")
