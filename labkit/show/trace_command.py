"""`labkit trace FILE.cu [KERNEL]`: run a kernel, or a whole program, and say what each line did."""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core.host_compiler import CompilerMissing
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError
from labkit.cuda.module import kernel
from labkit.cuda.programs.command import (
    COULD_NOT_RUN,
    add_build_arguments,
    add_result_arguments,
    build_options,
    run_and_report,
)
from labkit.cuda.report import Report
from labkit.cuda.source import blanked
from labkit.cuda.trace import Trace
from labkit.show.kernel import kernel as show_kernel
from labkit.widgets.static_page import widget_page

DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool",
}  # fmt: skip
_MAIN = re.compile(r"\bint\s+main\s*\(")
_ARRAY = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,x ]+)\](?:=(?P<fill>.+))?")
_HELP = (
    "one kernel argument, in order: a number, a .npy file, or an array such as f32[64,64], "
    "f32[100]=0, i32[100]=arange; fills: random (the default), arange, a number"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "The kernel runs in a process of its own, so that a crash of it ends nothing else. That is "
        "no sandbox: it may do whatever you may, so trace the files you would run."
    )
    parser.add_argument("file", type=Path, metavar="FILE.cu")
    parser.add_argument(
        "kernel",
        nargs="?",
        help='its name, or "add<float>" for an instance of a template; needless in a file of one, '
        "and in one with a main(), which is run whole",
    )
    parser.add_argument(
        "words", nargs="*", help="of a program with a main(): what it is given, after --"
    )
    parser.add_argument("--grid", default="1", help="blocks, such as 4 or 4x2 (default 1)")
    parser.add_argument("--block", default="32", help="threads, such as 256 or 32x8 (default 32)")
    parser.add_argument("--arg", action="append", default=[], help=_HELP)
    parser.add_argument("--shared", type=int, default=0, help="bytes of dynamic shared memory")
    parser.add_argument("--order", default="forward", help="forward, reverse or a seed")
    parser.add_argument("--blocks", type=int, help="trace only so many blocks, evenly spread")
    parser.add_argument("--seed", type=int, default=0, help="of the random arrays")
    add_build_arguments(parser)
    add_result_arguments(parser)
    parser.add_argument("--html", type=Path, metavar="OUT", help="write the picture as one page")


def run(arguments: argparse.Namespace) -> int:
    """0 when the kernel is clean, 1 when something was found, 2 when it could not run."""
    if _is_program(arguments.file):
        return _run_program(arguments)
    driver = EmulatorDriver(why="tracing")
    try:
        values = [parse_argument(text, arguments.seed + i) for i, text in enumerate(arguments.arg)]
        options = build_options(arguments)
        traced = kernel(name=arguments.kernel, path=arguments.file, options=options, driver=driver)
        order = int(arguments.order) if arguments.order.isdigit() else arguments.order
        report = traced(
            parse_sizes(arguments.grid),
            parse_sizes(arguments.block),
            values,
            shared_mem=arguments.shared,
            trace=Trace(blocks=arguments.blocks),
            order=order,
        )
    except (CompilerMissing, CudaError, OSError, ValueError) as error:
        print(f"labkit trace: {error}", file=sys.stderr)
        return 2
    finally:
        driver.worker.stop()
    print(report.printed, end="")
    print(report)
    try:
        if arguments.json:
            arguments.json.write_text(json.dumps(report.as_dict()), encoding="utf-8")
        _write_picture(arguments, report)
    except OSError as error:
        print(f"labkit trace: {error}", file=sys.stderr)
        return 2
    return 1 if report.findings else 0


def _is_program(file: Path) -> bool:
    try:
        return bool(_MAIN.search(blanked(file.read_text(encoding="utf-8", errors="replace"))))
    except OSError:
        return False


def _run_program(arguments: argparse.Namespace) -> int:
    """A whole program has run, each kernel's first launch of a size watched."""
    given = [*([arguments.kernel] if arguments.kernel else []), *arguments.words]
    result = run_and_report(arguments, "labkit trace", [arguments.file], given, trace=True)
    if result is None:
        return COULD_NOT_RUN
    if result.reports:
        _write_picture(arguments, *result.reports)
    return result.exit_status


def _write_picture(arguments: argparse.Namespace, *reports: Report) -> None:
    if arguments.html:
        page = widget_page(show_kernel(*reports), f"{reports[0].kernel} of {arguments.file.name}")
        arguments.html.write_text(page, encoding="utf-8")
        print(f"\n{arguments.html}  {arguments.html.stat().st_size / 1000:,.0f} kB")


def parse_sizes(text: str) -> tuple[int, ...]:
    """`32x8` as (32, 8).

    Raises   ValueError   it is something else
    """
    if not re.fullmatch(r"\d+([x,]\d+){0,2}", text):
        raise ValueError(f"sizes look like 4, 4x2 or 4x2x1, not {text!r}")
    return tuple(int(size) for size in re.split("[x,]", text))


def parse_argument(text: str, seed: int) -> Any:
    """The value a word of the command line stands for.

    Raises   ValueError   it stands for none
    """
    if text.endswith(".npy"):
        return np.ascontiguousarray(np.load(text, allow_pickle=False))
    match = _ARRAY.fullmatch(text)
    if match is not None:
        if match["dtype"] not in DTYPES:
            raise ValueError(f"{text!r}: a dtype is one of {', '.join(DTYPES)}")
        shape = tuple(int(size) for size in re.split("[,x ]+", match["shape"].strip(", x")))
        return _filled(np.dtype(DTYPES[match["dtype"]]), shape, match["fill"] or "random", seed)
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number, array such as f32[64,64] or .npy file") from None


def _filled(dtype: np.dtype[Any], shape: tuple[int, ...], fill: str, seed: int) -> NDArray[Any]:
    if fill == "arange":
        return np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    if fill == "random":
        generator = np.random.default_rng(seed)
        if dtype.kind == "f":
            return generator.standard_normal(shape).astype(dtype)
        return generator.integers(0, 100 if dtype.kind != "b" else 2, shape).astype(dtype)
    return np.full(shape, float(fill) if dtype.kind == "f" else int(fill)).astype(dtype)
