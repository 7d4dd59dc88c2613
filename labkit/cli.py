"""The `labkit` command: one line per sub-command, each living beside the layer it serves."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from labkit.launcher.surroundings import open_closed_streams

COMMANDS = {
    "doctor": ("labkit.doctor", "what this machine has, and what each missing thing costs you"),
    "conformance": (
        "labkit.conformance.command",
        "compare the rebuilt systems with the installed PyTorch",
    ),
    "trace": ("labkit.show.trace_command", "run a .cu kernel here and see what each line did"),
    "run": ("labkit.cuda.programs.command", "run a whole CUDA program here, without a GPU"),
    "bench": ("labkit.bench", "ratios of two things measured side by side in one run"),
    "notebooks": (
        "labkit.course.chapters.notebooks",
        "write, clean and check notebooks, make editions",
    ),
    "html": ("labkit.widgets.static_page", "a notebook as one page whose widgets work offline"),
    "memory": ("labkit.show.memory.command", "open a memory snapshot: whose bytes, what grows"),
    "video": ("labkit.pipeline.command", "a dark film made bright: decode, a network, encode"),
    "optimize": (
        "labkit.pipeline.profiling.optimize_command",
        "what a recorded run waited for, and which setting would help",
    ),
    "course": ("labkit.course.command", "your progress in the course, and a fresh start"),
    "site": ("labkit.workshop.site", "the course as pages that work without a server"),
    "workshop": ("labkit.workshop.command", "teach with it: the plan, the room, grades"),
}
"""Sub-command -> (module, help). A module offers `add_arguments(parser)` and `run(arguments)`,
which returns the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit status."""
    open_closed_streams()
    arguments_given = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="labkit", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    chosen = arguments_given[0] if arguments_given else None
    for name, (module, summary) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        if name == chosen:  # the other layers are not imported: `labkit doctor` needs no torch
            importlib.import_module(module).add_arguments(subparser)
    arguments = parser.parse_args(arguments_given)
    try:
        status: int = importlib.import_module(COMMANDS[arguments.command][0]).run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as in `labkit conformance | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("\nlabkit: stopped", file=sys.stderr)
        return 130
    return status
