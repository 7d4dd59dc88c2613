"""The launch lines of a kernel file's header: grid and block for sizes, written once.

    // launch: grid (ceil(N P Q / 64) * groups), block (256), shared memory (C + R) floats
    // launch of finish: grid (ceil(C / 256)), block (anything)

The second is for the kernel whose name ends in `_finish`. Names beside one another are multiplied,
`/` divides, `ceil` rounds up. An extent that starts with "anything" or "whole warps" is the
caller's to choose.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType

from labkit.cuda.errors import InvalidLaunchError, InvalidValueError

_LINE = re.compile(
    r"launch(?: of (?P<step>\w+))?: grid \((?P<grid>.+?)\), block \((?P<block>.+?)\)"
    r"(?:,\s+shared memory \((?P<shared>.+?)\) (?P<unit>\w+))?"
)
_BYTES = {"floats": 4, "ints": 4, "bytes": 1}
_TOKEN = re.compile(r"ceil(?= ?\()|[A-Za-z_]\w*|\d+|[()*/+]")
_OPEN = ("anything", "whole warps")
Extents = tuple[int, ...]


@dataclass(frozen=True)
class LaunchLine:
    """What one line says: the extents of a grid and of a block, as they are written.

    shared  dynamic shared memory in units of `unit` bytes
    """

    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str = "0"
    unit: int = 1

    def extents(
        self, sizes: Mapping[str, int], grid: int | None = None, block: int | None = None
    ) -> tuple[Extents, Extents]:
        """Grid and block for these sizes; every extent is at least 1.

        grid, block  what stands where the line leaves an extent of the grid, or of the block, open

        Raises   InvalidValueError    a size or an open extent is not given
                 InvalidLaunchError   the block is to be whole warps and is not
        """
        if "whole warps" in self.block and block is not None and block % 32:
            raise InvalidLaunchError(f"the block is whole warps, a multiple of 32; not {block}")
        return (
            tuple(self._extent(text, sizes, "grid", grid) for text in self.grid),
            tuple(self._extent(text, sizes, "block", block) for text in self.block),
        )

    def shared_bytes(self, sizes: Mapping[str, int]) -> int:
        """Bytes of dynamic shared memory for these sizes.

        Raises   InvalidValueError   a size is not given
        """
        return self.unit * self._value(self.shared, sizes, "shared memory")

    def _extent(self, text: str, sizes: Mapping[str, int], what: str, given: int | None) -> int:
        if not text.startswith(_OPEN):
            return max(1, self._value(text, sizes, what))
        if given is None:
            raise InvalidValueError(f"the header leaves the {what} open ({text}): give {what}=")
        return max(1, given)

    def _value(self, text: str, sizes: Mapping[str, int], what: str) -> int:
        code = self._code[text]
        missing = sorted(set(code.co_names) - {"ceil"} - set(sizes))
        if missing:
            raise InvalidValueError(f"{what} ({text}) wants {missing}; given: {sorted(sizes)}")
        return int(eval(code, {"__builtins__": {}, "ceil": math.ceil}, dict(sizes)))

    @cached_property
    def _code(self) -> dict[str, CodeType]:
        texts = (*self.grid, *self.block, self.shared)
        closed = [text for text in texts if not text.startswith(_OPEN)]
        return {text: _compiled(text) for text in closed}


def _compiled(text: str) -> CodeType:
    """The same in Python; only names, numbers, `ceil` and arithmetic come through.

    Raises   InvalidValueError   there is something else in it
    """
    tokens = _TOKEN.findall(text)
    out: list[str] = []
    for token in tokens:
        if out and out[-1] != "ceil" and out[-1] not in "(*/+" and token not in ")*/+":
            out.append("*")
        out.append(token)
    try:
        if "".join(tokens) == text.replace(" ", ""):
            return compile(" ".join(out), text, "eval")
    except SyntaxError:
        pass
    raise InvalidValueError(f"a size is a product of names and numbers, not {text!r}")


@lru_cache(256)
def launch_lines(code: str) -> dict[str, LaunchLine]:
    """The lines of the comment that a file starts with; step -> line, "" its own kernel."""
    header = re.match(r"(?://.*\n)*", code)
    text = re.sub(r"\n// *", " ", "\n" + header[0]) if header else ""
    return {one["step"] or "": _read(one) for one in _LINE.finditer(text)}


def _read(line: re.Match[str]) -> LaunchLine:
    grid, block = (tuple(line[what].split(", ")) for what in ("grid", "block"))
    return LaunchLine(grid, block, line["shared"] or "0", _BYTES.get(line["unit"], 1))


def launch_line(code: str, kernel: str) -> LaunchLine:
    """The line for the kernel of that name.

    Raises   InvalidValueError   the file's header has none
    """
    lines = launch_lines(code)
    steps = [step for step in lines if step and kernel.endswith(f"_{step}")]
    line = lines.get(max(steps, key=len, default=""))
    if line is None:
        raise InvalidValueError(
            f"the header of {kernel} has no line '// launch: grid (...), block (...)'"
        )
    return line
