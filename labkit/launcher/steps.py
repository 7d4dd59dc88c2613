"""Run a list of commands under titles, all of them, and say at the end which failed."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from labkit.launcher.environment import Environment

PYTEST_FOUND_NOTHING = 5


@dataclass(frozen=True)
class Step:
    """A title and the commands behind it; `python` stands for the environment's own."""

    title: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """How one step went."""

    step: Step
    failed: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        verdict = "FAILED" if self.failed else "ok"
        line = f"  {verdict:<8}{self.seconds:8.1f} s  {self.step.title}"
        return "\n".join([line, *(f"                      {command}" for command in self.failed)])


def parallel(workers: int) -> tuple[str, ...]:
    """pytest-xdist's arguments: a file stays on one worker, one that dies costs a single test."""
    return ("-p", "tests.scopes", "-n", str(workers), "--dist", "loadscope")


NO_NOTEBOOKS = ("-p", "no:nbval")
"""Two seconds of CPU less in each process: only the notebooks' own step runs notebooks."""

CHECK = Step(
    "check: ruff and mypy",
    (
        ("python", "-m", "ruff", "check", "."),
        ("python", "-m", "ruff", "format", "--check", "."),
        ("python", "-m", "mypy"),
    ),
)


def unit(size: str) -> Step:
    """Every test that needs no browser; unless the size is full, each at one seed."""
    marks = "not browser" if size == "full" else "not browser and not full"
    workers = parallel(min(max(os.cpu_count() or 2, 2), 6))  # each holds a torch (250 MB)
    order = "--no-loadscope-reorder"  # what waits comes first: tests/scopes.py
    command = ("python", "-m", "pytest", "tests", "-m", marks, *NO_NOTEBOOKS, *workers, order)
    return Step(f"unit: every test that needs no browser, {size}", (command,))


def conformance(size: str) -> Step:
    """Every rebuilt system against the installed PyTorch."""
    return Step(
        f"conformance: labkit against the installed PyTorch, {size}",
        (("python", "-m", "labkit", "conformance", "--seed", "0", "--size", size),),
    )


def notebooks(root: Path) -> Step:
    """Every notebook, solved, from top to bottom."""
    solved = str(root / ".lab" / "solved")
    return Step(
        "notebooks: every one, solved, from top to bottom",
        (
            ("python", "-m", "labkit", "notebooks", "solved", solved),
            # nbval waits 2000 s for a dead kernel unless told otherwise, and a notebook whose
            # cells are spread over workers has no state: hence the limits and loadscope.
            ("python", "-m", "pytest", "--nbval", "-p", "tests.warm_kernels",
             "-p", "no:python", "-p", "no:cacheprovider", *parallel(2),
             "--nbval-current-env", "--nbval-cell-timeout=600",
             "--nbval-kernel-startup-timeout=120", solved),
        ),
    )  # fmt: skip


BROWSER = Step(
    "browser: the widgets in JupyterLab, in Chromium",
    # Two: each worker drives a JupyterLab and a Chromium of its own.
    (("python", "-m", "pytest", "tests/browser", *NO_NOTEBOOKS, *parallel(2)),),
)
GPU = Step("gpu: the tests that need a card", (("python", "-m", "pytest", "tests", "-m", "gpu"),))
BENCH = Step("bench: ratios on this card", (("python", "-m", "labkit", "bench"),))


def run_steps(environment: Environment, steps: Sequence[Step], beside: Sequence[Step] = ()) -> int:
    """Run all steps, whatever fails on the way; 0 when none failed.

    beside  run at the same time, one after the other, and shown when `steps` are done

    The last line counts as pytest's does: a reader of logs needs one rule for both.
    """
    shutil.rmtree(environment.root / ".lab" / "solved", ignore_errors=True)
    started = time.monotonic()
    total = len(steps) + len(beside)
    numbered = [(step, f"{n}/{total}") for n, step in enumerate([*steps, *beside], start=1)]
    other = ThreadPoolExecutor(1)
    try:
        aside = [
            other.submit(run_step_aside, environment, *each) for each in numbered[len(steps) :]
        ]
        outcomes = [run_step(environment, *each) for each in numbered[: len(steps)]]
        for running in aside:
            outcome, printed = running.result()
            outcomes.append(outcome)
            print(printed, end="", flush=True)
    finally:
        other.shutdown(cancel_futures=True)  # after Ctrl-C nothing more is started
    print("\nSummary")
    for outcome in outcomes:
        print(outcome)
    failed = sum(bool(outcome.failed) for outcome in outcomes)
    counts = f"{failed} failed, " if failed else ""
    elapsed = time.monotonic() - started
    print(f"\n===== {counts}{len(outcomes) - failed} passed in {elapsed:.2f}s =====", flush=True)
    return 1 if failed else 0


def run_step_aside(environment: Environment, step: Step, number: str) -> tuple[Outcome, str]:
    """Run the commands of one step, all of them, out of sight; and what they printed."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
        outcome = run_step(environment, step, number, out)
        out.seek(0)
        return outcome, out.read()


def run_step(
    environment: Environment, step: Step, number: str, out: IO[str] | None = None
) -> Outcome:
    """Run the commands of one step, all of them, in sight of the user unless `out` is given."""
    print(f"\n[{number}] {step.title}", file=out, flush=True)
    started = time.monotonic()
    # One thread per test process: the machine is shared by the workers, not by torch's threads.
    variables = {"OMP_NUM_THREADS": "1", **environment.variables}
    # Hundreds of Pythons are started: what one has compiled of labkit, no other compiles again.
    variables["PYTHONDONTWRITEBYTECODE"] = ""
    failed = []
    for command in step.commands:
        actual = [str(environment.python) if word == "python" else word for word in command]
        status = subprocess.run(
            actual, cwd=environment.root, env=variables, check=False,
            stdout=out, stderr=None if out is None else subprocess.STDOUT,
        ).returncode  # fmt: skip
        if status:
            reason = " (found no tests)" if status == PYTEST_FOUND_NOTHING else ""
            failed.append(f"exit {status}{reason}: {' '.join(command)}")
    seconds = time.monotonic() - started
    verdict = "FAILED" if failed else "ok"
    print(f"[{number}] {verdict} after {seconds:.1f} s", file=out, flush=True)
    return Outcome(step, tuple(failed), seconds)
