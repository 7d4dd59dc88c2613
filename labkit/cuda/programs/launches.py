"""CUDA's one addition to the grammar, `kernel<<<grid, block>>>(arguments)`, as a C++ call."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from labkit.cuda.emulator import diagnose
from labkit.cuda.source import KernelText, blanked, closing, edited, pieces

_TAKES_KERNEL = re.compile(r"\bcuda(?:LaunchKernel|LaunchCooperativeKernel|Func\w+|Occupancy\w+)\b")
_TO_VOID = re.compile(
    r"\(\s*(?:const\s+)?void\s*\*\s*\)\s*|reinterpret_cast<\s*(?:const\s+)?void\s*\*\s*>\s*"
)
_KERNEL_BODY = re.compile(r"\b__global__\b[^;{}]*\{")
_CALLED_BODY = re.compile(r"\b__global__\b[^;{}#]*\)\s*\{")
_ENDS = re.compile("[;{}#]")  # of what was declared before


@dataclass(frozen=True)
class Launch:
    """One launch as places in the text: kernel, `<<<`, `>>>` and the arguments' brackets."""

    kernel: int
    opening: int
    closing: int
    arguments: int
    end: int


_SPACED = re.compile(r"<<[ \t]+<")
_SPACED_END = re.compile(r">>[ \t]+>")


def joined(code: str) -> str:
    """The code with `k << < grid, block >> > (n)`, as old formatters write it, in one piece."""
    stripped = blanked(code)
    edits = []
    for opening in _SPACED.finditer(stripped):
        end = _SPACED_END.search(stripped, opening.end())
        if end and ";" not in stripped[opening.end() : end.start()]:
            edits += [(*opening.span(), "<<<"), (*end.span(), ">>>")]
    return edited(code, edits)


def launches(stripped: str) -> Iterator[Launch]:
    """Every launch of a text without comments and strings, in order of their `<<<`."""
    at = stripped.find("<<<")
    while at >= 0:
        close = _configuration_end(stripped, at + 3)
        arguments = close + 3
        while stripped[arguments : arguments + 1] in (" ", "\t", "\r", "\n", "\\"):
            arguments += 1
        if close < len(stripped) and stripped[arguments : arguments + 1] == "(":
            end = closing(stripped, arguments, "()")
            yield Launch(_kernel_start(stripped, at), at, close, arguments, end)
        at = stripped.find("<<<", at + 3)


def _configuration_end(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 and text.startswith(">>>", i):
            return i
    return len(text)


def _kernel_start(text: str, end: int) -> int:
    """Where the expression that names the kernel begins: a::b<c, d>, (x ? a : b), table[i]."""
    at = end
    while True:
        at = _before_blank(text, at)
        if at and text[at - 1] == ")":
            return _opening(text, at - 1)
        if at and text[at - 1] in ">]":
            at = _before_blank(text, _opening(text, at - 1))
        while at and (text[at - 1].isalnum() or text[at - 1] == "_"):
            at -= 1
        before = _before_blank(text, at)
        if text[max(0, before - 2) : before] in ("::", "->"):
            at = before - 2
        elif text[before - 1 : before] == ".":
            at = before - 1
        else:
            return at


def _before_blank(text: str, at: int) -> int:
    while at and text[at - 1] in " \t\r\n\\":
        at -= 1
    return at


def _opening(text: str, close: int) -> int:
    """Where the bracket that closes here was opened."""
    pair = {">": "<", ")": "(", "]": "["}[text[close]]
    depth, i = 0, close
    while i >= 0:
        if text[i] == text[close]:
            depth += 1
        elif text[i] == pair:
            depth -= 1
        elif text[i] in ")]" and text[close] == ">":
            i = _opening(text, i)
        if depth == 0:
            return i
        i -= 1
    return 0


def as_calls(code: str, kernels: Iterable[KernelText], path: str) -> str:
    """The code with every launch as `cuemu::launch(kernel, cuemu::named(...), arguments)`.

    kernels   of all files of the program

    Raises   UnsupportedFeatureError   a kernel launches another
    """
    texts: dict[str, list[KernelText]] = {}
    for kernel in kernels:
        texts.setdefault(kernel.name, []).append(kernel)
    code = joined(code)
    stripped = blanked(code)
    bodies = [
        (match.end() - 1, closing(stripped, match.end() - 1, "{}"))
        for match in _KERNEL_BODY.finditer(stripped)
    ]
    edits: list[tuple[int, int, str]] = []
    for one in launches(stripped):
        if any(start < one.opening < end for start, end in bodies):
            line = stripped.count("\n", 0, one.opening) + 1
            raise diagnose.unsupported("dynamic_parallelism", f"{path}:{line}")
        named = stripped[one.kernel : one.opening].strip()
        before, after = "cuemu::launch(", ""
        count = _count(stripped[one.arguments + 1 : one.end])
        if _is_deduced(named, count, texts) or _is_host_too(named, stripped):
            before = "cuemu::launch_deduced([](auto... cuemu_a) { "
            after = "(cuemu_a...); }"
        spoken = re.sub(r"\s+", " ", named).replace("\\", "").replace('"', "")
        empty = not stripped[one.arguments + 1 : one.end].strip(" \t\r\n\\")
        edits += [
            (one.kernel, one.kernel, before),
            (one.opening, one.opening + 3, f'{after}, cuemu::named("{spoken}", '),
            (one.closing, one.closing + 3, ")"),
            (one.arguments, one.arguments + 1, "" if empty else ", "),
        ]
    edits += _casts(stripped, texts)
    return edited(code, sorted(edits))


def without_bodies(code: str) -> str:
    """For the host: a kernel that is called as a function only says so, as nvcc's stub returns."""
    stripped = blanked(code)
    ends = (
        match.end()
        for match in _CALLED_BODY.finditer(stripped)
        if "#" not in stripped[stripped.rfind("\n", 0, match.start()) + 1 : match.start()]
    )
    return edited(code, [(end, end, " cuemu_unlaunched(); return;") for end in ends])


def _is_deduced(named: str, count: int, texts: dict[str, list[KernelText]]) -> bool:
    """Whether only a call says which function is meant: overloads, templates to deduce, defaults.

    count   of the arguments
    """
    given = ""
    if named.endswith(">"):
        start = _opening(named, len(named) - 1)
        named, given = named[:start].strip(), named[start + 1 : -1]
    matches = texts.get(named.split("::")[-1].strip(), [])
    if len(matches) > 1 and not any(one.is_template for one in matches):
        return (
            len({one.scope for one in matches}) < len(matches)
            and len({one.parameters for one in matches}) > 1
        )
    return any(
        _count(given) < len(one.template_names) or count < len(one.parameters) for one in matches
    )


def _is_host_too(named: str, stripped: str) -> bool:
    """Whether a host function has the kernel's name, with other parameters."""
    defined = re.finditer(
        rf"\b(?:void|int|float|double|bool)[\s*&]+{re.escape(named)}\s*\(", stripped
    )
    before = (_ENDS.split(stripped[: one.start()])[-1] for one in defined)
    return any("__global__" not in one for one in before)


def _count(arguments: str) -> int:
    """How many arguments stand there, with commas between them."""
    return len(pieces(arguments, "<([{")) if arguments.strip() else 0


def _casts(stripped: str, texts: dict[str, list[KernelText]]) -> list[tuple[int, int, str]]:
    """`(void*)kernel` hides the parameters: the runtime's own calls get it without the cast, and
    what keeps it for later gets an operator that remembers them.
    """
    calls = []
    for call in _TAKES_KERNEL.finditer(stripped):
        opening = stripped.find("(", call.end())
        calls.append((opening, closing(stripped, opening, "()")))
    found = []
    for cast in _TO_VOID.finditer(stripped):
        word = re.match(r"\(?\s*&?\s*(\w+)", stripped[cast.end() :])
        if word and word[1] in texts:
            direct = any(start < cast.start() < end for start, end in calls)
            found.append((*cast.span(), "" if direct else "cuemu::Known() ->* "))
    return found
