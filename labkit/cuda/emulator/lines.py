"""From an offset in a compiled module to the learner's line."""

import functools
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from labkit.cuda.emulator import build


class Location(NamedTuple):
    """A line of a source file; line 0 when it is not known.

    caller   the kernel's line that the function was inlined into, None for the kernel's own
    """

    file: str
    line: int
    function: str
    caller: "Location | None" = None

    def with_files(self, named: Callable[[str], str]) -> "Location":
        """The same with another name for each file."""
        caller = self.caller.with_files(named) if self.caller else None
        return self._replace(file=named(self.file), caller=caller)


_UNKNOWN = Location("", 0, "")
_known: dict[tuple[Path, int], Location] = {}


def locate(binary: Path, offsets: Sequence[int]) -> list[Location]:
    """Where each offset comes from: the innermost frame outside the emulator's headers."""
    missing = [o for o in dict.fromkeys(offsets) if (binary, o) not in _known]
    if missing:
        tool = _tool()
        if tool is None:
            return [_UNKNOWN for _ in offsets]
        addresses = "\n".join(f"{offset:#x}" for offset in missing)
        told = subprocess.run(
            [tool, "-a", "-i", "-f", "-C", "-e", str(binary)],
            input=addresses, capture_output=True, text=True, check=False,
        )  # fmt: skip
        for offset, chain in zip(missing, _chains(told.stdout), strict=False):
            _known[binary, offset] = _choose(chain)
    return [_known.get((binary, offset), _UNKNOWN) for offset in offsets]


@functools.cache
def _tool() -> str | None:
    newest = sorted(map(str, Path("/usr/bin").glob("llvm-addr2line-*")))[-1:]
    return next(filter(None, map(shutil.which, ("addr2line", "llvm-addr2line", *newest))), None)


def _chains(text: str) -> list[list[Location]]:
    """One list of frames, innermost first, per address that addr2line echoes."""
    chains: list[list[Location]] = []
    frames = iter(text.splitlines())
    for line in frames:
        if line.startswith("0x"):
            chains.append([])
            continue
        place = next(frames, "??:0").rsplit(" (discriminator", 1)[0]
        file, _, number = place.rpartition(":")
        chains[-1].append(Location(file, int(number) if number.isdigit() else 0, line))
    return chains


def _choose(chain: list[Location]) -> Location:
    headers = str(build.INCLUDE)
    own = [
        frame
        for frame in chain
        if frame.line and not frame.file.startswith(headers) and "/unit.cpp" not in frame.file
    ]
    if not own:
        return _UNKNOWN
    inlined = own[0][:2] != own[-1][:2]
    return own[0]._replace(caller=own[-1]) if inlined else own[0]
