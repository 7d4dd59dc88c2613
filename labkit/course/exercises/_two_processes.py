"""A sum over processes: what each of them did is written down by the process itself."""

import atexit
import contextlib
import json
import multiprocessing
import multiprocessing.util
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.core import cpu_time
from labkit.course.checking.stopwatch import undisturbed
from labkit.course.exercise import Evidence, Exercise, Hint, Rng, handed_out
from labkit.course.exercises._never_right import CONSTANT, TOO_SLOW

PREPARED: list[bool] = []
STANDSTILL_SECONDS = 0.5
RAN_SECONDS = 0.002  # of CPU in that time: less is none
ENDING_SECONDS = 10.0  # of CPU


class Witness(TorchDispatchMode):  # type: ignore[misc]
    """Writes down, in the process it sees it in, every all-reduce and whether a group is left."""

    def __init__(self, log: str) -> None:
        super().__init__()
        self.log = log

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.c10d.allreduce_.default:
            store = dist.distributed_c10d._get_default_store()
            while hasattr(store, "underlying_store"):
                store = store.underlying_store
            port = getattr(store, "port", None)
            self.note(kind="reduced", rank=dist.get_rank(), of=dist.get_world_size(), port=port)
        return func(*args, **(kwargs or {}))

    def note(self, **facts: Any) -> None:
        """Append one fact; a line this short is written in one piece."""
        with Path(self.log).open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), **facts}) + "\n")

    def ended(self) -> None:
        """The process ends; an interpreter and a forked child tell in different ways."""
        self.note(kind="ended", left=dist.is_initialized())


class Number:
    """What each process adds: number(rank) is rank + 1. Call it in the process of that rank."""

    def __init__(self, log: str) -> None:
        self.log, self.owner = log, os.getpid()

    def __call__(self, rank: int) -> int:
        """Rank plus one; from now on this process is watched, unless it is the notebook's own."""
        witness = Witness(self.log)
        if os.getpid() == self.owner:
            witness.note(kind="called at home")
            return rank + 1
        witness.__enter__()
        atexit.register(witness.ended)
        multiprocessing.util.Finalize(witness, witness.ended, exitpriority=1)
        return rank + 1


def _a_world(rng: Rng, size: int) -> tuple[int]:
    if not PREPARED:
        with Witness(""):  # its first operator imports eight hundred modules: not on the clock
            torch.ones(1)
        PREPARED.append(True)
    return (size + 2 if rng.chance(0.7) else rng.randint(2, 4),)


def _two_runs(world_size: int) -> dict[str, Any]:
    one = {
        "sums": [world_size * (world_size + 1) // 2] * world_size,
        "ranks that reduced": list(range(world_size)),
        "processes that reduced": world_size,
        "numbers asked for in the notebook's own process": 0,
        "groups left initialised": 0,
        "processes left": 0,
    }
    return {"first run": one, "second run": one}


def _drive_twice(answer: Any, world_size: int) -> dict[str, Any]:
    """Run it, take the port it used, and run it again: nothing may be left in its way."""
    with contextlib.ExitStack() as cleanup:
        folder = cleanup.enter_context(tempfile.TemporaryDirectory())
        first, ports = seen_run(answer, world_size, f"{folder}/first")
        for port in ports:
            cleanup.enter_context(taken(port))
        second, _ = seen_run(answer, world_size, f"{folder}/second")
    return {"first run": first, "second run": second}


@handed_out
def taken(port: int) -> socket.socket:
    """A socket of someone else's on this port; a port still in use is as good as taken."""
    both = socket.has_dualstack_ipv6()
    listener = socket.socket(socket.AF_INET6 if both else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past a closed connection
    with contextlib.suppress(OSError):
        if both:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("", port))
        listener.listen()
    return listener


@handed_out
def seen_run(answer: Any, world_size: int, log: str) -> tuple[dict[str, Any], set[int]]:
    """One run as (what was seen of it, the ports it used); whatever it leaves is removed."""
    before = {child.pid for child in multiprocessing.active_children()}
    Path(log).touch()
    try:
        sums = answer(world_size, Number(log))
    finally:
        with undisturbed():  # what ran out of time must not cut this short
            notes = [json.loads(line) for line in Path(log).read_text().splitlines()]
            pids = {note["pid"] for note in notes} - {os.getpid()}
            started = {child.pid for child in multiprocessing.active_children()} - before
            left = [pid for pid in pids | started if pid is not None and still_there(pid)]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    still_there(pid)  # collects it
            left_here = dist.is_initialized()
            if left_here:
                dist.destroy_process_group()
    reduced = [note for note in notes if note["kind"] == "reduced"]
    seen = {
        "sums": sums,
        "ranks that reduced": sorted(n["rank"] for n in reduced if n["of"] == world_size),
        "processes that reduced": len({n["pid"] for n in reduced}),
        "numbers asked for in the notebook's own process": sum(
            note["kind"] == "called at home" for note in notes
        ),
        "groups left initialised": left_here
        + sum(note["left"] for note in notes if note["kind"] == "ended"),
        "processes left": len(left),
    }
    return seen, {note["port"] for note in reduced if note["port"] is not None}


@handed_out
def still_there(pid: int) -> bool:
    """Whether a process stays; one that has ended is collected on the way.

    It stays when for half a second it neither ends nor runs, and when it uses ten seconds of CPU: a
    busy machine makes an ending process wait, and gives it some time all the same.
    """
    began = now = cpu_time.of_process(pid)
    while now - began < ENDING_SECONDS:
        before = now
        if _ends_within(STANDSTILL_SECONDS, pid):
            return False
        now = cpu_time.of_process(pid)
        if now - before < RAN_SECONDS:
            break
    return True


@handed_out
def _ends_within(seconds: float, pid: int) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
        time.sleep(0.01)
    return False


def _as_calls(world_size: int) -> str:
    return f"two_process_sum({world_size}, number), twice"


def _says(text: str) -> Callable[[Evidence], bool]:
    return lambda evidence: text in evidence.property


two_process_sum = Exercise(
    id="introduction.two_process_sum",
    rules=("the reduction is done by torch.distributed with gloo, in processes you start",),
    case=_a_world,
    expected=_two_runs,
    drive=_drive_twice,
    show=_as_calls,
    cases=3,
    sizes=2,
    seconds=20.0,  # its processes import torch where they are not forked
    rung="boss",
    minutes=25,
    processes=True,
    hints=(
        "Join every process, and destroy the group in finally.",
        Hint(
            "The second run failed: what is still bound? Let the rendezvous use a file in a "
            "temporary folder (FileStore) instead of a port.",
            when=lambda evidence: any(
                word in evidence.got for word in ("ddress", "imed out", "bind")
            ),
        ),
        "Someone waits for ever? The group forms when world_size processes have come: how many "
        "did you start? And in the second run, is a port taken that you need again? A timeout "
        "given to init_process_group turns waiting into an error.",
        Hint(
            "A group was still initialised when its process ended, or is in the notebook's own "
            "process. Each process that joins one calls destroy_process_group() before it ends; "
            "in finally it does so after an error too.",
            when=_says("left initialised"),
        ),
        Hint("A process outlived your function: join each of them.", when=_says("processes left")),
        Hint(
            "No all-reduce was seen in enough processes of their own: call number(rank) in the "
            "process that reduces, not before you start it.",
            when=_says("reduced"),
        ),
        "A function of a notebook exists only in this process, so use "
        "multiprocessing.get_context('fork'): a forked child carries it along. A SimpleQueue "
        "brings (rank, sum) back.",
    ),
    must_fail=(
        "computes the sum in the parent",
        "runs one process with world size 1",
        "leaves the group initialised",
        "fixed port so the second run fails",
        "leaves a process running",
        "returns only rank 0",
        CONSTANT,
        TOO_SLOW,
    ),
)
