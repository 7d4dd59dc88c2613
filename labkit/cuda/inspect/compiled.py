"""One file as NVIDIA's compiler left it: text, resources, and which source line made what."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from labkit.cuda.errors import CompileError
from labkit.cuda.inspect import libraries


@dataclass(frozen=True)
class Resources:
    """What one kernel takes of an SM, as ptxas counted it.

    registers      per thread, 255 at most
    stack_bytes    local memory per thread: arrays that no register can hold, and spills
    spill_*_bytes  local memory traffic per thread, in the code, because registers ran out
    shared_bytes   static, per block; dynamic shared memory is the launch's to say
    """

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    barriers: int

    @property
    def spill_bytes(self) -> int:
        """Stores and loads together; 0 when everything fitted."""
        return self.spill_store_bytes + self.spill_load_bytes


_ENTRY = re.compile(r"Compiling entry function '(?P<entry>[^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def resources_in(log: str) -> dict[str, Resources]:
    """Entry -> resources, from what `ptxas -v` printed."""
    found = {}
    _, *parts = _ENTRY.split(log)
    for entry, text in zip(parts[::2], parts[1::2], strict=True):
        spills, used = _SPILLS.search(text), re.search(r"Used (\d+) registers(.*)", text)
        if spills is None or used is None:
            raise CompileError(f"ptxas said nothing of {entry}'s registers or spills:\n{text}")
        shared, barriers = (
            re.search(rf"(\d+) {what}", used[2]) for what in ("bytes smem", "barriers")
        )
        found[entry] = Resources(
            registers=int(used[1]),
            stack_bytes=int(spills[1]),
            spill_store_bytes=int(spills[2]),
            spill_load_bytes=int(spills[3]),
            shared_bytes=int(shared[1]) if shared else 0,
            barriers=int(barriers[1]) if barriers else 0,
        )
    return found


@dataclass(frozen=True)
class AsmLine:
    """One line of PTX or SASS.

    line  of the compiled file that it comes from; for code of an included function, the line that
          called it; None for directives and labels
    """

    text: str
    kernel: str
    line: int | None


@dataclass(frozen=True)
class Compiled:
    """A source compiled for one arch.

    kernels  name -> Resources; names are the name expressions asked for, else the kernels' own
    entries  name -> the symbol in PTX and SASS
    log      what NVRTC and ptxas said
    """

    arch: str
    path: str
    ptx: str
    cubin: bytes
    log: str
    kernels: dict[str, Resources]
    entries: dict[str, str]

    @property
    def compiler(self) -> str:
        """The compiler's full version, such as "13.0.88"."""
        told = re.search(r"\bV(\d+(?:\.\d+)+)", self.ptx)
        return told[1] if told else "unknown"

    @cached_property
    def sass(self) -> str | None:
        """The machine code as text, with `//## File "...", line N` marks; None without nvdisasm."""
        program = libraries.nvdisasm()
        if program is None:
            return None
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(self.cubin)
            file.flush()
            told = subprocess.run(
                [program, "-gi", "-c", file.name], capture_output=True, text=True, check=False
            )
        if told.returncode:
            raise CompileError(f"nvdisasm: {told.stderr.strip()}", "labkitErrorDisassembly")
        return told.stdout

    @property
    def why_no_sass(self) -> str:
        """How to get the disassembler, "" where it is installed."""
        if libraries.nvdisasm() is not None:
            return ""
        return f"nvdisasm, NVIDIA's disassembler, is not installed. {libraries.HOW}"

    def ptx_lines(self) -> list[AsmLine]:
        """The PTX of the kernels, each line with the source line it comes from."""
        files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', self.ptx, re.MULTILINE))
        own = {number for number, name in files.items() if self._is_own(name)}
        entry_of = re.compile(r"\.entry\s+([\w$]+)")
        kernel, line, found = "", None, []
        for text in self.ptx.splitlines():
            entry = entry_of.search(text)
            if entry:
                kernel, line = self._name(entry[1]), None
            if re.match(r"\s*\.loc\b", text):
                places = re.findall(r"(?:\.loc|inlined_at)\s+(\d+)\s+(\d+)", text)
                line = next((int(n) or None for file, n in places if file in own), line)
            elif kernel:
                is_code = re.match(r"\s*(?:@|[a-z])[^/]*;", text) is not None
                found.append(AsmLine(text, kernel, line if is_code else None))
            if text == "}":
                kernel = ""
        return found

    def sass_lines(self) -> list[AsmLine]:
        """The SASS of the kernels, each instruction with the source line it comes from.

        Raises   CompileError   there is no disassembler; `why_no_sass` says what to install
        """
        if self.sass is None:
            raise CompileError(self.why_no_sass, "labkitErrorNvdisasmMissing")
        return list(self._sass_lines(self.sass))

    def _sass_lines(self, sass: str) -> Iterator[AsmLine]:
        kernel, line = "", None
        for text in sass.splitlines():
            section = re.match(r"\s*\.section\s+\.text\.([\w$]+)", text)
            if section:
                kernel, line = self._name(section[1]), None
            mark = re.match(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at .*)?$', text)
            if mark:
                line = int(mark[2]) if self._is_own(mark[1]) else line
                continue
            is_code = re.match(r"\s*/\*[0-9a-f]{4,}\*/", text) is not None
            is_label = re.match(r"\.L_x_\w+:", text) is not None
            if kernel and (is_code or is_label):
                yield AsmLine(text, kernel, line if is_code else None)

    def _is_own(self, file: str) -> bool:
        return Path(file).name == Path(self.path).name

    def _name(self, entry: str) -> str:
        return next((name for name, one in self.entries.items() if one == entry), entry)
