"""The commands of lab.py."""

import argparse
import os
import sys
from pathlib import Path

from labkit.launcher import constraints, steps
from labkit.launcher.environment import Environment
from labkit.launcher.gpu import has_gpu
from labkit.launcher.jupyter import open_lab
from labkit.launcher.problem import Problem, file_failure
from labkit.launcher.setup import ready, repair
from labkit.launcher.surroundings import provide_home
from labkit.launcher.wheels import use_wheels

COMMANDS = {
    "open": "set up what is missing, then open JupyterLab (what lab.py does without a command)",
    "setup": "set up what is missing, and stop there",
    "repair": "compare every installed file with its record, and put right what is not as it was",
    "test": "lint, types, unit tests, conformance, every notebook, the browser",
    "check": "lint and types only",
    "gpu": "on a machine with an NVIDIA GPU: what the other tests had to skip, and the benchmarks",
    "lock": "write constraints.txt anew, the exact versions, after a change of pyproject.toml",
}


def parse(given: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The arguments, and those that are meant for JupyterLab."""
    parser = argparse.ArgumentParser(
        prog="lab.py",
        description="PyTorch Internals Lab: set up, open, test.",
        epilog="commands:\n"
        + "\n".join(f"  {name:<8}{summary}" for name, summary in COMMANDS.items())
        + "\n\nWhat `open` does not know is given to JupyterLab: lab.py --no-browser\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="python3 lab.py [command] [options]",
    )
    parser.add_argument(
        "command", nargs="?", choices=COMMANDS, default="open", metavar="command", help="see below"
    )
    parser.add_argument("--port", type=int, help="open: the port of JupyterLab")
    parser.add_argument(
        "--all",
        action="store_true",
        help="test: the full-size corpora as well; lock: the newest version of every package",
    )
    parser.add_argument(
        "--no-setup", action="store_true", help="use this Python as it is, whatever it lacks"
    )
    arguments, unknown = parser.parse_known_args(given)
    if unknown and arguments.command != "open":
        parser.error(f"lab.py {arguments.command} does not know {' '.join(unknown)}")
    return arguments, unknown


def main(root: str, given: list[str]) -> int:
    """Run one command of lab.py and return its exit status."""
    arguments, extra = parse(given)
    try:
        return run(Path(root), arguments, extra)
    except Problem as problem:
        told: Problem | None = problem
    except OSError as error:
        told = file_failure(error, Path(root))
        if told is None:
            raise
    except KeyboardInterrupt:
        print("\nlab.py: stopped; the same command goes on where it stopped.", file=sys.stderr)
        return 130
    print(f"\nlab.py: {told}", file=sys.stderr)
    return 1


def run(root: Path, arguments: argparse.Namespace, extra: list[str]) -> int:
    """Set up as far as the command needs, then do it.

    Raises   Problem   the user has to do something first
    """
    if os.name == "nt":
        raise Problem("Windows itself is not supported.", "run lab.py inside WSL.")
    provide_home(root)
    bundled = use_wheels(root)
    on_gpu = has_gpu()
    if arguments.command == "gpu" and not on_gpu:
        raise Problem(
            "No NVIDIA GPU here (nvidia-smi lists none), so there is nothing to run on it.",
            "run `python3 lab.py test`: everything else is tested without a GPU.",
        )
    if arguments.command == "lock":  # before a set-up, which the old versions might not let pass
        constraints.refresh(Environment(root, Path(sys.executable)), newest=arguments.all)
        return 0
    if arguments.no_setup:
        environment = Environment(root, Path(sys.executable))
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
    else:
        # In CI what is optional is installed, so that no test is skipped for the lack of it.
        # A bundle is for a workshop, and holds what bundle.EXTRAS says.
        in_ci = sys.platform == "linux" and os.environ.get("CI") == "true"
        wanted = {
            "test": True, "video": True, "gpu": on_gpu and not bundled, "inspect": in_ci,
            "workshop": in_ci or bundled,
        }  # fmt: skip
        extras = tuple(extra for extra, needed in wanted.items() if needed)
        environment = (repair if arguments.command == "repair" else ready)(root, extras)
    if arguments.command == "open":
        open_lab(environment, arguments.port, extra)
    if arguments.command == "setup":
        print("The lab is set up. Open it with: python3 lab.py")
        return 0
    if arguments.command == "repair":
        print("Every file is as it was installed, and torch can be imported.")
        return 0
    return steps.run_steps(environment, *steps_of(root, arguments))


def steps_of(
    root: Path, arguments: argparse.Namespace
) -> tuple[list[steps.Step], list[steps.Step]]:
    """What a command runs, and what it runs at the same time, where others leave a core idle."""
    if arguments.command == "check":
        return [steps.CHECK], []
    if arguments.command == "gpu":
        return [steps.GPU, steps.notebooks(root), steps.BENCH], []
    sizes = ["small", "full"] if arguments.all else ["small"]
    conformance = [steps.conformance(size) for size in sizes]
    beside = [*conformance, steps.notebooks(root), steps.BROWSER]
    return [steps.CHECK, steps.unit(sizes[-1])], beside
