"""`%%cuda`: a whole CUDA program in a notebook's cell, its output and its findings below."""

import argparse
import os
import shlex
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.core.host_compiler import CompilerMissing
from labkit.cuda.errors import CudaError
from labkit.cuda.programs.builds import Program
from labkit.cuda.programs.command import add_build_arguments, build_options
from labkit.cuda.programs.program import run_program
from labkit.cuda.programs.result import ProgramResult
from labkit.cuda.source import blanked, parse
from labkit.show.kernel import kernel as show_kernel

CELL = "cell.cu"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ValueError(f"{message}\n{self.format_usage()}")


def load(shell: Any) -> None:
    """`%%cuda` works in this shell."""
    shell.register_magic_function(lambda line, cell: _run(shell, line, cell), "cell", "cuda")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%cuda", description=__doc__, add_help=False)
    parser.add_argument("words", nargs="*", metavar="ARGUMENT", help="what main() is given")
    parser.add_argument("--fast", action="store_true", help="watch no launch")
    parser.add_argument("--into", metavar="NAME", help="keep the result under this name")
    add_build_arguments(parser)
    return parser


def _run(shell: Any, line: str, cell: str) -> None:
    """The program has run; what it printed, what was found and its launches are shown."""
    try:
        arguments = _parser().parse_args(shlex.split(line))
        program = program_of(cell, build_options(arguments))
        result = run_shown(program, arguments.words, trace=not arguments.fast)
    except (CompilerMissing, CudaError, OSError, ValueError) as error:
        text = str(error).removeprefix("NVRTC_ERROR_COMPILATION: ")
        print(f"%%cuda: {text}", file=sys.stderr)
        return
    if arguments.into:
        shell.user_ns[arguments.into] = result
    print(f"\n{result}")
    if result.status:
        print(f"  main() ended with status {result.status}")
    if result.reports:
        from IPython.display import display

        display(show_kernel(*result.reports))  # type: ignore[no-untyped-call]


def program_of(cell: str, options: Sequence[str] = ()) -> Program:
    """The program that a cell is; what it includes lies beside the notebook.

    Raises   ValueError   it has no main()
    """
    if "main" not in blanked(cell):
        kernels = ", ".join(one.name for one in parse(cell).kernels) or "no kernel"
        raise ValueError(f"a cell is a whole program, and this one has no main(), only {kernels}")
    return Program((Path(CELL),), tuple(options), cell)


def run_shown(program: Program, arguments: Sequence[str], *, trace: bool) -> ProgramResult:
    """The finished run; its output appeared on this process's `sys.stdout` while it ran."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "r", encoding="utf-8", errors="replace", newline="") as lines:
        shown = threading.Thread(target=_copy, args=(lines, sys.stdout))
        shown.start()
        try:
            return run_program(program, arguments, trace=trace, output=writing)
        finally:
            os.close(writing)
            shown.join()


def _copy(lines: Any, target: Any) -> None:
    for line in lines:
        target.write(line)
        target.flush()
