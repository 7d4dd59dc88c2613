"""`labkit run FILE.cu [ARGUMENT ...]`: a whole CUDA program, without a GPU."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from labkit.core.host_compiler import CompilerMissing
from labkit.cuda.errors import CudaError
from labkit.cuda.programs.builds import Program
from labkit.cuda.programs.includes import SOURCES
from labkit.cuda.programs.program import DEFAULT_TIMEOUT_S, run_program
from labkit.cuda.programs.result import ProgramResult
from labkit.cuda.programs.sarif import sarif
from labkit.cuda.programs.suppressions import read_suppressions, suppress

COULD_NOT_RUN = 2
_EPILOG = (
    "The exit status is the program's own; 1 if that is 0 and something was found, 2 if it could "
    "not be built. The program runs with your rights: this is no sandbox. Options come first."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="FILE.cu ... [ARGUMENT ...]",
        help="the source files, then what the program is given; -- between them if need be",
    )  # fmt: skip
    parser.add_argument(
        "--trace", action="store_true", help="watch each kernel's first launch of a size"
    )
    parser.add_argument(
        "--check", action="store_true", help="only compile the files, each by itself; run nothing"
    )
    add_build_arguments(parser)
    add_result_arguments(parser)


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    """What a compiler is told, in nvcc's spelling."""
    parser.add_argument("-I", dest="include", action="append", default=[], metavar="FOLDER")
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]")
    parser.add_argument(
        "-std", dest="standard", metavar="c++17", help="c++14, c++17 (default) or c++20"
    )
    parser.add_argument(
        "-Xcompiler", dest="of_host", action="append", default=[], metavar="=OPTION",
        help="for the host's compiler and linker, such as -Xcompiler=-fopenmp",
    )  # fmt: skip
    parser.add_argument("-l", dest="libraries", action="append", default=[], metavar="LIBRARY")


def build_options(arguments: argparse.Namespace) -> list[str]:
    """What `add_build_arguments` was given, as the compiler takes it."""
    options = [f"-D{one}" for one in arguments.defines] + [f"-I{one}" for one in arguments.include]
    options += [f"-l{one}" for one in arguments.libraries]
    options += [f"-Xcompiler={one}" for one in arguments.of_host]
    return options + ([f"-std={arguments.standard}"] if arguments.standard else [])


def add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Where findings go, and which of them are known."""
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the findings there")
    parser.add_argument("--sarif", type=Path, metavar="OUT", help="write them there as SARIF 2.1.0")
    parser.add_argument(
        "--suppress", type=Path, metavar="FILE", help="lines such as: blur.cu:12 race REASON"
    )
    parser.add_argument(
        "--timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="SECONDS",
        help="processor time that one kernel may take (default %(default)g)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """The program's exit status; 1 for findings of a program that ended well."""
    words: list[str] = arguments.words
    count = next(
        (i for i, word in enumerate(words) if Path(word).suffix not in SOURCES), len(words)
    )
    given = words[count + 1 :] if words[count : count + 1] == ["--"] else words[count:]
    sources = [Path(word) for word in words[:count]]
    if not sources:
        print(f"labkit run: name a source file, {', '.join(SOURCES)}", file=sys.stderr)
        return COULD_NOT_RUN
    if arguments.check:
        return _checked(arguments, sources)
    result = run_and_report(arguments, "labkit run", sources, given, trace=arguments.trace)
    return COULD_NOT_RUN if result is None else result.exit_status


def _checked(arguments: argparse.Namespace, sources: Sequence[Path]) -> int:
    """0: every file compiles for the host and for the device."""
    try:
        Program(tuple(sources), tuple(build_options(arguments))).check()
    except (CompilerMissing, CudaError, OSError) as error:
        print(f"labkit run: {_without_code(error)}", file=sys.stderr)
        return COULD_NOT_RUN
    return 0


def run_and_report(
    arguments: argparse.Namespace,
    command: str,
    sources: Sequence[Path],
    given: Sequence[str],
    *,
    trace: bool,
) -> ProgramResult | None:
    """The finished run, its findings told and written where asked for; None: it could not run."""
    try:
        known = read_suppressions(arguments.suppress) if arguments.suppress else []
        program = Program(tuple(sources), tuple(build_options(arguments)))
        sys.stdout.flush()
        result = run_program(program, given, trace=trace, timeout_s=arguments.timeout)
        suppress(result, known)
        _show(result, watched=trace)
        if arguments.json:
            arguments.json.write_text(json.dumps(result.as_dict(), indent=1), encoding="utf-8")
        if arguments.sarif:
            arguments.sarif.write_text(json.dumps(sarif(result), indent=1), encoding="utf-8")
    except (CompilerMissing, CudaError, OSError) as error:
        print(f"{command}: {_without_code(error)}", file=sys.stderr)
        return None
    return result


def _without_code(error: Exception) -> str:
    return str(error).removeprefix("NVRTC_ERROR_COMPILATION: ")


def _show(result: ProgramResult, *, watched: bool) -> None:
    """The findings, behind the program's own output; standard output is the program's alone."""
    if result.findings or result.notes or watched:
        print(f"\n{result}", file=sys.stderr)
