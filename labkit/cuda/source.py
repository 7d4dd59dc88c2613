"""What can be read off CUDA C++ text without compiling it: kernels, parameters, includes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labkit.core.carried import carried

KERNELS = carried("kernels", "kernels")
"""Where `#include "lab.cuh"` is found."""

_COMMENT_OR_STRING = re.compile(
    r'R"([^()\\\s]{0,16})\(.*?\)\1"|'
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL,
)
_KERNEL = re.compile(
    r"(?P<template>template\s*<[^;{}()]*>\s*)?"
    r"(?P<c>extern\s+\x00C\x00\s*(?P<block>\{)?\s*)?"
    r"(?:(?:static|inline)\s+)*__global__\s+"
    r"(?P<head>(?:__launch_bounds__\s*\([^;{}]*?\)|[^;{}(])*?)"
    r"\b(?!__launch_bounds__)(?P<name>[A-Za-z_]\w*)\s*\("
)
_CLOSED_BY = str.maketrans("<([{", ">)]}")
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*([^,()]+?)\s*[,)]")


@dataclass(frozen=True)
class Parameter:
    """One parameter as written: `const float* __restrict__ x`."""

    type: str
    name: str


@dataclass(frozen=True)
class KernelText:
    """One `__global__` function as written."""

    name: str
    scope: str
    """Of its namespaces: `a::b::`, or nothing."""
    parameters: tuple[Parameter, ...]
    is_extern_c: bool
    template_names: tuple[str, ...]
    """Of a template's parameters, in order; empty for a plain function."""
    max_threads: int | None
    line: int

    @property
    def qualified_name(self) -> str:
        """What names it from outside: a C name has no namespaces."""
        return self.name if self.is_extern_c else self.scope + self.name

    @property
    def is_template(self) -> bool:
        """True when only its instances can be launched."""
        return bool(self.template_names)


@dataclass(frozen=True)
class Source:
    """A .cu file, read but not compiled."""

    stripped: str
    """The text with comments and strings blanked out, line for line."""
    kernels: tuple[KernelText, ...] = ()
    dynamic_shared_names: tuple[str, ...] = ()
    extern_c_kernels: list[str] = field(default_factory=list)

    def kernel(self, name: str) -> KernelText | None:
        """The kernel a name or name expression such as `ns::add<float>` refers to."""
        bare = re.sub(r"<.*", "", name).split("::")[-1].strip()
        return next((kernel for kernel in self.kernels if kernel.name == bare), None)


def _blank(match: re.Match[str]) -> str:
    text = match.group()
    if text == '"C"':
        return "\x00C\x00"
    return re.sub(r"[^\n]", " ", text)


def blanked(code: str) -> str:
    """The code with spaces for comments and strings, place for place."""
    return _COMMENT_OR_STRING.sub(_blank, code)


def parse(code: str) -> Source:
    """The kernels of a CUDA source, in order."""
    stripped = blanked(code)
    c_blocks = _blocks(stripped, r"extern\s+\x00C\x00")
    spaces = _blocks(stripped, r"\bnamespace\s+([\w:]+)")
    kernels = []
    for match in _KERNEL.finditer(stripped):
        at = match.start("name")
        inside = any(start < at < end for start, end, _ in c_blocks)
        scope = "".join(f"{name}::" for start, end, name in spaces if start < at < end)
        close = closing(stripped, match.end() - 1, "()")
        head = match.group("head") + stripped[close + 1 : stripped.find("{", close) + 1]
        bounds = _BOUNDS.search(head)
        kernels.append(
            KernelText(
                name=match.group("name"),
                scope=scope,
                parameters=_parameters(stripped[match.end() : close]),
                is_extern_c=bool(match.group("c")) or inside,
                template_names=_template_names(match.group("template") or ""),
                max_threads=int(bounds.group(1)) if bounds and bounds.group(1).isdigit() else None,
                line=stripped.count("\n", 0, match.start("name")) + 1,
            )
        )
    dynamic = re.findall(
        r"extern\s+(?:__align__\s*\(\s*\w+\s*\)\s*)?__shared__\b[^;]*?\b(\w+)\s*\[\s*\]", stripped
    )
    exported = [kernel.name for kernel in kernels if kernel.is_extern_c]
    return Source(
        stripped, tuple(kernels), tuple(dict.fromkeys(dynamic)), list(dict.fromkeys(exported))
    )


def _template_names(head: str) -> tuple[str, ...]:
    inside = head.partition("<")[2].rpartition(">")[0]
    pieces = [piece.split("=")[0].split() for piece in inside.split(",")]
    return tuple(words[-1] for words in pieces if words)


def closing(text: str, opening: int, pair: str) -> int:
    """Where the bracket that opens here is closed; the end of the text if nowhere."""
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return len(text)


def _blocks(stripped: str, head: str) -> list[tuple[int, int, str]]:
    """(start, end, first group of the head) of every `head { ... }`, from outside in."""
    return [
        (match.end(), closing(stripped, match.end() - 1, "{}"), (*match.groups(), "")[0])
        for match in re.finditer(head + r"\s*\{", stripped)
    ]


def pieces(
    text: str, brackets: str, mark: str = ",", start: int = 0, end: int | None = None
) -> list[tuple[int, int]]:
    """(start, end) of what stands between marks that are in no brackets.

    brackets   those that open, such as "([{"
    """
    closed = brackets.translate(_CLOSED_BY)
    found, depth, first = [], 0, start
    stop = len(text) if end is None else end
    for i in range(start, stop):
        depth += (text[i] in brackets) - (text[i] in closed)
        if text[i] == mark and depth == 0:
            found.append((first, i))
            first = i + 1
    return [*found, (first, stop)]


def _parameters(text: str) -> tuple[Parameter, ...]:
    found = []
    for piece in (text[slice(*place)] for place in pieces(text, "<([")):
        words = " ".join(piece.split("=")[0].split())
        match = re.match(r"(.*?)(\w+)\s*(\[[^\]]*\])?$", words)
        if match and words != "void":
            found.append(
                Parameter(match.group(1).strip() + ("*" if match.group(3) else ""), match.group(2))
            )
        elif words and not match:
            found.append(Parameter(words, f"#{len(found)}"))  # it has no name
    return tuple(found)


def included_files(code: str, directories: Sequence[Path]) -> list[Path]:
    """Every file that `#include "..."` brings in, each once, in the order first met."""
    found: list[Path] = []

    def visit(text: str, here: Sequence[Path]) -> None:
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', text, re.MULTILINE):
            path = next((d / name for d in here if (d / name).is_file()), None)
            if path is not None and path.resolve() not in found:
                found.append(path.resolve())
                visit(path.read_text(encoding="utf-8"), [path.parent, *directories])

    visit(code, directories)
    return found


def gcc_unroll(code: str) -> str:
    """The code with `#pragma unroll` in g++'s spelling, line for line."""

    def spelled(match: re.Match[str]) -> str:
        count = match.group(2)
        if count is None:
            return f"{match.group(1)}#pragma GCC unroll 64"
        return f"{match.group(1)}#pragma GCC unroll {count.strip('() ')}"

    return re.sub(
        r"^([ \t]*)#[ \t]*pragma[ \t]+unroll[ \t]*(\(?[ \t]*\w+[ \t]*\)?)?[ \t]*(?://[^\n]*)?$",
        spelled,
        code,
        flags=re.MULTILINE,
    )


def noinline(code: str) -> str:
    """The code with CUDA's `__noinline__` as an attribute; a macro would break libstdc++'s own."""
    stripped = blanked(code)
    found = re.finditer(r"(?<!\()\b__noinline__\b", stripped)
    return edited(code, [(*match.span(), "__attribute__((noinline))") for match in found])


def alignas_first(code: str) -> str:
    """The code with `__shared__ alignas(16)` as `alignas(16) __shared__`: C++ wants it in front."""
    stripped = blanked(code)
    edits = []
    for match in re.finditer(r"\b(__shared__)(\s+)(?=alignas\s*\()", stripped):
        opening = stripped.index("(", match.end())
        end = closing(stripped, opening, "()") + 1
        edits += [(*match.span(1), ""), (end, end, " __shared__")]
    return edited(code, edits)


def edited(code: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """The code with (start, end, text) in place of what stands there, from left to right."""
    pieces, done = [], 0
    for start, end, text in edits:
        pieces += [code[done:start], text]
        done = end
    return "".join([*pieces, code[done:]])


_PLACE = r"(?:\*\s*)*(?:\(\s*\*\s*\w+\s*\)|\w+)"
_ASSIGNED = re.compile(
    r"(?P<before>(?:^|[;{}:)]|\belse\b)\s*)"
    rf"(?P<place>{_PLACE}(?:\s*(?:\[[^;{{}}=]*?\]|(?:\.|->)\s*\w+))*)\s*(?<![=!<>+\-*/%&|^])=(?!=)"
    r"(?P<value>[^;{}=#\\]*\([^;{}=#\\]*\)[^;{}=#\\]*);"
)


def stored_results(code: str) -> str:
    """The code with `s[i] = f(x);` as `s[i] = cuemu::stored(f(x));`, line for line.

    A compiler that instruments accesses overlooks the place a call returns its struct to. Left as
    they are: declarations, values without a call, lists, and what stands in a macro.
    """
    stripped = blanked(code)
    edits = []
    for match in _ASSIGNED.finditer(stripped):
        place, value = match["place"].strip(), match["value"]
        in_memory = place.startswith("*") or place[-1] in "])" or "." in place or "->" in place
        line = stripped.rfind("\n", 0, match.start("place")) + 1
        in_macro = stripped[line:].lstrip().startswith("#") or stripped[:line].endswith("\\\n")
        if not in_memory or in_macro or len(pieces(value, "<([")) > 1:
            continue
        start, end = match.span("value")
        edits.append((start, end, f" cuemu::stored({code[start:end].strip()})"))
    return edited(code, edits)
