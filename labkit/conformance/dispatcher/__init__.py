"""The dispatcher against the installed PyTorch's: tables, sets, registrations, calls, reasons.

    tables     (a) every shipped operator's table, recomputed from its raw registrations
    keysets    (b) key set arithmetic, aliases, thread-local guards
    programs   (c) random programs of registrations, overrides and removals on both
    calls      (d) random calls of recording kernels under random thread-local sets
    explained  (e) `explain` of real operators against a recording of what ran

(c), (d) and (e) register kernels in the process they run in, and a mistake there can end it: they
run in a child process, and a child that dies is reported as a difference.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from labkit.conformance.dispatcher import keysets, programs, tables
from labkit.conformance.report import Comparison, Size
from labkit.dispatch.dispatcher import Rule
from labkit.dispatch.operator import slots_updated

NOT_MODELLED = (
    "schema inference from C++ signatures, and the signature check of typed calls",
    "registration listeners, deferred Python modules (pystubs), the Python dispatcher's own cache",
    "what a kernel's own code calls: explain follows the contracts of PyTorch's generated and "
    "fallback kernels and says so where a kernel decides for itself",
    "generators contribute keys in PyTorch's typed calls but not in boxed ones; every call here "
    "is boxed",
)
CHILD_PARTS = ("programs", "calls", "explained")


SYSTEM = "slots_updated"
"""What another rule is called in a file that is compared in place of labkit's."""


def compare(seed: int, size: Size, system: Rule = slots_updated) -> Iterator[Comparison]:
    """One comparison per question; all of them equal for every seed.

    system   which cells a registration stores again; of another rule than PyTorch's is asked, in
             this process, whether each stored cell is the one that PyTorch prints
    """
    if system is not slots_updated:
        yield from programs.compare_rule(seed, size, system)
        return
    yield from tables.compare(seed, size)
    yield from keysets.compare(seed, size)
    parts = list(CHILD_PARTS)
    while parts:  # one child for all; another for what is left, if it dies
        yield from _in_a_child(parts, seed, size)


def _in_a_child(parts: list[str], seed: int, size: Size) -> Iterator[Comparison]:
    """Compare these parts in a child process, taking each off the list as it begins."""
    command = [sys.executable, "-m", "labkit.conformance.dispatcher.child", str(seed), size, *parts]
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,  # a file: a full pipe would stop the child
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        part = "starting"
        assert child.stdout is not None
        with child:
            for line in child.stdout:
                message = json.loads(line)
                if "part" in message:
                    part = message["part"]
                    parts.remove(part)
                else:
                    yield Comparison(**message)
        if child.returncode == 0:
            return
        errors.seek(0)
        said = errors.read()[-2_000:]
    if part == "starting":
        parts.clear()  # another child would not start either
    died = f"signal {-child.returncode}" if child.returncode < 0 else f"status {child.returncode}"
    yield Comparison(f"{part}: the child process finishes", 1, 0, f"it ended with {died}\n{said}")
