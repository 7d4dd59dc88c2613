"""`show.compile`: CUDA source beside its PTX and SASS, line for line, with registers and spills."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from labkit.cuda import inspect
from labkit.cuda import source as cuda_source
from labkit.cuda.errors import CompileError, NvrtcMissingError
from labkit.cuda.inspect import AsmLine, Compiled, recorded
from labkit.cuda.module import RawKernel, RawModule
from labkit.widgets.code.code_view import CodeView

_DIAGNOSTIC = re.compile(r"\((?P<line>\d+)\):\s*(?:catastrophic )?(?P<kind>error|warning)[^:]*:\s*"
                         r"(?P<text>.+)")  # fmt: skip

Place = tuple[int, int, int]


def compile(  # noqa: A001  (it shadows the builtin only inside this module)
    kernel: RawKernel | RawModule | Path | str,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    at: int | str | None = None,
) -> CodeView:
    """The source, its PTX and its SASS side by side; a line lights what was made of it.

    kernel   a kernel (its module is compiled, its own code shown), a module, the path of a file,
             or CUDA C++ text
    arch     the GPU generation, "sm_80" to "sm_120"; no GPU is needed
    options  further compiler options, such as "-DTILE=32"
    at       the station to open at: its number, from 1, or words of its text

    Each kernel's first line says how many registers and bytes it takes; a spill is a warning. A
    source that the compiler refuses is shown with what it said. Where NVRTC is not installed,
    sources that lessons show have recordings; for others a pane says how to get it.

    Raises   TypeError           something else was given
             InvalidValueError   this compiler does not know the arch
             ValueError          no station `at`
    """
    text, path, names, own = _asked(kernel)
    panes: list[dict[str, Any]] = [{"title": Path(path).name, "text": text, "language": "cuda"}]
    try:
        made = _made(text, path, arch, names, (*own, *options))
    except NvrtcMissingError as error:
        panes.append(_note(f"PTX for {arch}", str(error)))
        return CodeView(panes, title=f"{Path(path).name}: not compiled here")
    except CompileError as error:
        return _refused(panes, str(error), arch)
    only = kernel.name if isinstance(kernel, RawKernel) else None
    asm = [("ptx", "PTX", made.ptx_lines())]
    if made.sass is not None:
        asm.append(("sass", "SASS", made.sass_lines()))
    made_of: dict[int, list[Place]] = {}
    for number, (language, name, whole) in enumerate(asm, start=1):
        shown = [one for one in whole if only is None or one.kernel == only]
        panes.append({"title": f"{name} for {arch}", "lines": [_tidy(one.text) for one in shown],
                      "language": language})  # fmt: skip
        for line, places in _places(shown, number):
            made_of.setdefault(line, []).extend(places)
    if made.sass is None:
        panes.append(_note(f"SASS for {arch}", made.why_no_sass))
    last = len(text.rstrip("\n").split("\n"))
    lines = [line for line in sorted(made_of) if line <= last]
    return CodeView(
        panes,
        links=[[(0, line, line), *made_of[line]] for line in lines],
        stations=[_station(line, made_of[line], [name for _, name, _ in asm]) for line in lines],
        marks=_resources(made, text, only),
        title=f"{only or Path(path).name} through NVRTC {made.compiler}"
        + (", recorded" if isinstance(made, recorded.Recorded) else ""),
    ).open_at(at)


def _made(
    text: str, path: str, arch: str, names: Sequence[str], options: Sequence[str]
) -> Compiled | recorded.Recorded:
    """Compiled here, or as it was recorded where a lesson shows this very source.

    Raises   NvrtcMissingError   neither
    """
    try:
        return inspect.compile_source(text, arch, names, path=path, options=options)
    except NvrtcMissingError:
        found = recorded.find(text, arch, names, options)
        if found is None:
            raise
        return found


def _asked(kernel: Any) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """(text, path, name expressions, options) of whatever was given."""
    if isinstance(kernel, RawKernel):
        kernel = kernel.module
    if isinstance(kernel, RawModule):
        return kernel.code, kernel.path, kernel.name_expressions, kernel.options
    if isinstance(kernel, Path):
        return kernel.read_text(encoding="utf-8"), str(kernel), (), ()
    if isinstance(kernel, str):
        return kernel, "kernel.cu", (), ()
    raise TypeError(f"show.compile takes a kernel, a module, a path or CUDA text, not {kernel!r}")


def _tidy(line: str) -> str:
    """A line of SASS without the room left of its address; PTX as it is."""
    return re.sub(r"^\s+(/\*[0-9a-f]{4,}\*/)\s*", r"\1  ", line).replace("\t", "    ")


def _places(lines: Sequence[AsmLine], pane: int) -> Iterator[tuple[int, list[Place]]]:
    """Source line -> the runs of lines in the pane that were made of it."""
    runs: dict[int, list[Place]] = {}
    numbered = enumerate(lines, start=1)
    for line, run in groupby(numbered, key=lambda one: one[1].line):
        first, *_ = rest = [number for number, _ in run]
        if line is not None:
            runs.setdefault(line, []).append((pane, first, rest[-1]))
    yield from runs.items()


def _station(line: int, places: Sequence[Place], names: Sequence[str]) -> dict[str, Any]:
    """One step of the walk: a source line, and how much was made of it."""
    counts = [
        f"{sum(last - first + 1 for pane, first, last in places if pane == number)} of {name}"
        for number, name in enumerate(names, start=1)
    ]
    return {"pane": 0, "lines": (line, line), "text": f"line {line}: {' and '.join(counts)}"}


def _resources(
    made: Compiled | recorded.Recorded, text: str, only: str | None
) -> list[dict[str, Any]]:
    """A mark on each kernel's line: what it takes of the machine."""
    parsed = cuda_source.parse(text)
    marks = []
    for name, used in made.kernels.items():
        written = parsed.kernel(name)
        if only not in (None, name) or written is None:
            continue
        words = f"{used.registers} registers, {used.shared_bytes} bytes of shared memory"
        if used.spill_bytes:
            words += (
                f"; {used.spill_store_bytes} bytes spilled to local memory, "
                f"{used.spill_load_bytes} read back"
            )
        else:
            words += ", nothing spilled"
        severity = "warning" if used.spill_bytes else "note"
        marks.append({"pane": 0, "line": written.line, "severity": severity,
                      "text": f"{name}: {words}"})  # fmt: skip
    return marks


def _refused(panes: list[dict[str, Any]], message: str, arch: str) -> CodeView:
    """The source with the compiler's words on the lines they are about."""
    last = len(panes[0]["text"].rstrip("\n").split("\n"))
    marks = [
        {"pane": 0, "line": min(last, max(1, int(found["line"]))), "severity": found["kind"],
         "text": found["text"]}
        for found in _DIAGNOSTIC.finditer(message)
    ]  # fmt: skip
    if not marks:
        panes = [*panes, _note("the compiler", message)]
    errors = sum(mark["severity"] == "error" for mark in marks)
    return CodeView(panes, marks=marks, title=f"refused for {arch}: {errors} errors")


def _note(title: str, text: str) -> dict[str, Any]:
    return {"title": title, "text": text, "language": "text"}
