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
from collections.abc import Iterator

from labkit.conformance.dispatcher import keysets, tables
from labkit.conformance.report import Comparison, Size

NOT_MODELLED = (
    "schema inference from C++ signatures, and the signature check of typed calls",
    "registration listeners, deferred Python modules (pystubs), the Python dispatcher's own cache",
    "what a kernel's own code calls: explain follows the contracts of PyTorch's generated and "
    "fallback kernels and says so where a kernel decides for itself",
    "generators contribute keys in PyTorch's typed calls but not in boxed ones; every call here "
    "is boxed",
)
CHILD_PARTS = ("programs", "calls", "explained")


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """One comparison per question; all of them equal for every seed."""
    yield from tables.compare(seed, size)
    yield from keysets.compare(seed, size)
    for part in CHILD_PARTS:
        yield from _in_a_child(part, seed, size)


def _in_a_child(part: str, seed: int, size: Size) -> Iterator[Comparison]:
    child = subprocess.Popen(
        [sys.executable, "-m", "labkit.conformance.dispatcher.child", part, str(seed), size],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert child.stdout is not None
    assert child.stderr is not None
    with child:
        for line in child.stdout:
            yield Comparison(**json.loads(line))
        errors = child.stderr.read()
    if child.returncode != 0:
        died = f"signal {-child.returncode}" if child.returncode < 0 else str(child.returncode)
        yield Comparison(
            f"{part}: the child process finishes", 1, 0, f"it ended with {died}\n{errors[-2000:]}"
        )
