"""Which lines of the user's own program are running."""

import linecache
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import labkit

_LAB = str(Path(labkit.__file__).parent)
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib")})
_NOT_THE_USERS = (_LAB, *_INSTALLED, "<")
MOST_LINES = 400
"""Of one function: a longer one is cut there."""


@dataclass
class Function:
    """A function of the program: its name, its file's name, its text."""

    name: str
    file: str
    first_line: int
    lines: list[str]


class SourceLines:
    """The functions met so far, and the chains of lines that were running.

    functions  in the order in which they were met
    chains     each a tuple of (function, line number), innermost first
    """

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.chains: list[tuple[tuple[int, int], ...]] = []
        self._places: dict[CodeType, int] = {}
        self._known: dict[tuple[tuple[int, int], ...], int] = {}
        self._outermost: FrameType | None = None

    def begin(self) -> None:
        """Only what the caller calls from now on counts, not who called the caller."""
        self._outermost = sys._getframe(1)

    def running(self) -> int:
        """The place of the chain that this thread runs; -1 when nothing of it is the user's."""
        met = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._outermost:
            if not frame.f_code.co_filename.startswith(_NOT_THE_USERS):
                met.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        if not met or frame is None:
            return -1
        # The caller is met before what it calls, so that it stands above it.
        whole = tuple([(self._place(code), line) for code, line in met[::-1]][::-1])
        if whole not in self._known:
            self._known[whole] = len(self.chains)
            self.chains.append(whole)
        return self._known[whole]

    def _place(self, code: CodeType) -> int:
        if code not in self._places:
            self._places[code] = len(self.functions)
            self.functions.append(_function(code))
        return self._places[code]


def _function(code: CodeType) -> Function:
    first = code.co_firstlineno
    last = max((line for *_, line in code.co_lines() if line), default=first)
    numbers = range(first, min(last, first + MOST_LINES) + 1)
    lines = [linecache.getline(code.co_filename, number).rstrip("\n") for number in numbers]
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    path = Path(code.co_filename)
    file = "notebook cell" if path.stem.isdigit() else path.name  # a cell's file is a hash
    return Function(name, file, first, [line[indent:] for line in lines])
