"""`on_two`: the same function in two processes that can talk to each other."""

import contextlib
import importlib
import multiprocessing
import pickle
import tempfile
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

WAITS = timedelta(seconds=60)
"""After so long a message that does not come is an error; ranks that agree need milliseconds."""
STAYS = 1.0
"""Seconds for which a rank that has finished keeps its connections, for one that is behind."""
FORKED = "fork-based multiprocessing"
RESTART = " (restart the kernel: after a backward pass next to a GPU, a process cannot be copied)"


class RankFailed(RuntimeError):
    """What went wrong in the processes, rank by rank."""


def on_two(work: Callable[[int], Any]) -> list[Any]:
    """What `work(0)` and `work(1)` returned, each in a process of its own.

    Both are copies of this process, so they know all that it knows, and nothing they change comes
    back but what they return. They are the two ranks of a gloo group: `torch.distributed` works.

    Raises   RankFailed   one of them raised, or waited for a message that nobody sent
    """
    importlib.import_module("torch._dynamo")  # optimizers want it: once here, not in each process
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the kernel has other threads
        ends = [fork.Pipe() for _ in range(2)]
        members = [
            fork.Process(target=_member, args=(work, rank, Path(folder) / "store", end))
            for rank, (_, end) in enumerate(ends)
        ]
        try:
            for member in members:
                member.start()
            for _, end in ends:
                end.close()  # the member's own is left: it closes as the member ends
            told = _told([end for end, _ in ends])
        finally:
            for member in members:
                member.kill()
                member.join()
    if wrong := [f"rank {rank}: {value}" for rank, (fine, value) in enumerate(told) if not fine]:
        raise RankFailed("; ".join(wrong) + RESTART * any(FORKED in one for one in wrong))
    return [value for _, value in told]


def _member(work: Callable[[int], Any], rank: int, store: Path, parent: Connection) -> None:
    """One process: join the group, say so, work, tell, and leave when the parent says so."""
    torch.set_num_threads(1)  # the threads of the parent's pool were not copied
    try:
        shared = dist.FileStore(str(store), 2)
        dist.init_process_group("gloo", store=shared, rank=rank, world_size=2, timeout=WAITS)
        parent.send_bytes(pickle.dumps((True, "joined")))
        said = pickle.dumps((True, work(rank)))
    except Exception as error:
        said = pickle.dumps((False, f"{type(error).__name__}: {error}"))
    parent.send_bytes(said)
    with contextlib.suppress(EOFError):
        parent.recv_bytes()
    if dist.is_initialized():
        dist.destroy_process_group()


def _told(ends: list[Connection]) -> list[tuple[bool, Any]]:
    """What each rank told. The first to finish stays a while, then leaves.

    One that waits for a message of the other hears that it has left, and raises. How long the
    first one stays decides nothing: one that is behind has what it was sent, or waits in vain.
    """
    joined = [_message(end) for end in ends]
    found = {rank: said for rank, said in enumerate(joined) if not said[0]}
    patience = STAYS if found else None
    while len(found) < len(ends):
        behind = [end for rank, end in enumerate(ends) if rank not in found]
        ready = wait(behind, timeout=patience)
        for end in ready:
            found[ends.index(end)] = _message(end)  # type: ignore[arg-type]
        patience = STAYS
        if not ready:
            for rank in found:
                with contextlib.suppress(OSError):  # one that ended without a word
                    ends[rank].send_bytes(b"leave")
            patience = None
    return [found[rank] for rank in range(len(ends))]


def _message(end: Connection) -> tuple[bool, Any]:
    with contextlib.suppress(EOFError):
        return pickle.loads(end.recv_bytes())  # type: ignore[no-any-return]
    return False, "its process ended without a word"
