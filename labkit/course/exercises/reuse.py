"""Memory used twice: a pool that lends, a cache that survives, batches that adapt, a plan."""

from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._borrowers import tensor_pool
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._policies import checkpoint_policy
from labkit.course.exercises._reuse_steps import cache_key, first_fit, next_size

NOTEBOOK = "5_optimization/4_memory"

# --- disk_cache


class Died(BaseException):
    """The process was killed."""


class Folder:
    """Files by name. The process may be killed in any of its calls.

    dies_at   the number of the call, from 1; a write then leaves the first half
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.dies_at = self.calls = 0

    def write(self, name: str, content: bytes) -> None:
        """The file has this content."""
        if self._dies():
            self.files[name] = bytes(content[: len(content) // 2])
            raise Died
        self.files[name] = bytes(content)

    def rename(self, old: str, new: str) -> None:
        """The file has the new name, at once; what had it before is gone."""
        if self._dies():
            raise Died
        self.files[new] = self.files.pop(old)

    def read(self, name: str) -> bytes | None:
        """The content, or None."""
        return self.files.get(name)

    def _dies(self) -> bool:
        self.calls += 1
        return self.calls == self.dies_at


def _stored(rng: Rng, size: int, damage: str = "") -> tuple[bytes, bytes, str, int]:
    old, new = (rng.randbytes(rng.randint(1, 4 + 8 * size)) for _ in range(2))
    kind = damage or rng.choice(("none", "killed", "cut", "flipped", "longer"))
    return old, new, kind, rng.randint(0, 10**6)


def _drive_cache(answer: Any, old: bytes, new: bytes, damage: str, where: int) -> Any:
    """What load gives after what happened to the file."""
    store, load = answer
    folder = Folder()
    if load(folder, "frame") is not None:
        return "something, from an empty folder"
    store(folder, "frame", old)
    if damage == "killed":
        folder.dies_at = folder.calls + 1 + where % folder.calls
    try:
        store(folder, "frame", new)
    except Died:
        found = load(folder, "frame")
        return "the old or the new one" if found in (old, new) else found
    content = folder.files.get("frame", b"")
    at = where % max(1, len(content))
    if damage == "cut":
        folder.files["frame"] = content[:at]
    elif damage == "longer":
        folder.files["frame"] = content + b"?"
    elif damage == "flipped" and content:
        folder.files["frame"] = content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
    return load(folder, "frame")


def _right_cache(old: bytes, new: bytes, damage: str, where: int) -> Any:
    return {"none": new, "killed": "the old or the new one"}.get(damage)


disk_cache = Exercise(
    id="reuse.disk_cache",
    case=_stored,
    expected=_right_cache,
    drive=_drive_cache,
    minutes=12,
    cases=80,
    stages=(
        Stage("there and back", case=lambda rng, size: _stored(rng, size, "none"), cases=10),
        Stage("killed", case=lambda rng, size: _stored(rng, size, "killed"), cases=15),
        Stage("damaged", case=lambda rng, size: _stored(rng, size, rng.choice(
            ("cut", "flipped", "longer"))), cases=40),
        Stage("together"),
    ),
    rules=("zlib.crc32 or hashlib is allowed; no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("`read` gave None: nothing is stored under this name yet. Then load gives None, too.",
             when=lambda e: e.kind == "raised" and "NoneType" in e.got),
        Hint("The process was killed, and load gave neither the old content nor the new: half a "
             "file had the final name, or two files did not belong together. Write one file under "
             "another name, then rename it.", when=lambda e: e.inputs[2] == "killed"),
        Hint("load raised an error on a damaged file. It gives None: look first whether all bytes "
             "that you take apart are there.", when=lambda e: e.kind == "raised"
             and e.inputs[2] in ("cut", "flipped", "longer")),
        Hint("A damaged file was taken for whole. Put a checksum of the content in front of it, "
             "and look at it in load.", when=lambda e: e.inputs[2] in ("cut", "flipped", "longer")),
        "zlib.crc32(content).to_bytes(4) gives four bytes.",
        "load returns None for everything that is not exactly what store has written.",
    ),
    must_fail=(
        "writes under the final name",
        "has no checksum",
        "knows the length only",
        "fails on an empty folder",
        "deletes before it writes",
        "catches every exception and returns a default",
    ),
)  # fmt: skip

# --- adaptive_batches


class Room:
    """A device that changes: at attempt n there is room for rooms[n], and the last one stays."""

    def __init__(self, rooms: list[int]) -> None:
        self.rooms, self.sizes = rooms, list[int]()

    def run(self, batch: Any) -> list[int]:
        """The batch, each number times ten.

        Raises   torch.OutOfMemoryError   no room
        """
        room = self.rooms[min(len(self.sizes), len(self.rooms) - 1)]
        self.sizes.append(len(batch))
        if len(self.sizes) > 5_000:
            raise RuntimeError("5,000 attempts: this does not end")
        if not len(batch):
            raise RuntimeError("an empty batch")
        if len(batch) > room:
            raise torch.OutOfMemoryError(f"no room for {len(batch)}")
        return [10 * item for item in batch]


def _rooms(rng: Rng, size: int, kind: str = "") -> tuple[int, list[int], str]:
    kind = kind or rng.choice(("stable", "moves", "nothing fits"))
    if kind == "stable":
        room = rng.randint(1, 3 + 4 * size)
        return 60 * room + rng.randint(0, 3), [room], kind
    if kind == "nothing fits":
        return rng.randint(1, 30), [0], kind
    return 200, [rng.randint(1, 20) for _ in range(30)], kind


def _drive_adaptive(answer: Any, count: int, rooms: list[int], kind: str) -> dict[str, Any]:
    device, ended = Room(rooms), "in order"
    found: Any = None
    try:
        found = answer(device.run, list(range(count)))
    except torch.OutOfMemoryError:
        ended = "torch.OutOfMemoryError"
    return {"results": found, "ended": ended, "attempts": len(device.sizes)}


def _judge_adaptive(case: Case, got: Any) -> Any:
    if isinstance(got, Raised):
        return "adaptive_batches(run, items) ends, and returns a list"
    count, rooms, kind = case.inputs
    ended = "torch.OutOfMemoryError" if kind == "nothing fits" else "in order"
    if got["ended"] != ended:
        return Wrong("how it ends", ended)
    if ended == "in order" and got["results"] != [10 * n for n in range(count)]:
        return Wrong("a result for every item, once, in order", [10 * n for n in range(count)])
    if kind == "stable":
        most = -(-count // rooms[0]) + 2 * rooms[0].bit_length() + 2
        if got["attempts"] > most:
            return Wrong(f"at most {most} attempts: {count} items, room for {rooms[0]}")
    return None


def _told(count: int, rooms: list[int], kind: str) -> str:
    room = rooms[0] if len(rooms) == 1 else f"{', '.join(map(str, rooms[:8]))}, ..."
    return f"{count} items; room for {room}"


adaptive_batches = Exercise(
    id="reuse.adaptive_batches",
    case=_rooms,
    judge=_judge_adaptive,
    drive=_drive_adaptive,
    show=_told,
    minutes=12,
    cases=60,
    stages=(
        Stage("it ends", case=lambda rng, size: _rooms(rng, size, "nothing fits"), cases=5),
        Stage("every result", case=lambda rng, size: _rooms(rng, size, "moves")),
        Stage("few attempts", case=lambda rng, size: _rooms(rng, size, "stable")),
        Stage("together"),
    ),
    rules=("catch nothing but torch.OutOfMemoryError",),
    banned=("labkit.*",),
    hints=(
        Hint("{input}: when a single item does not fit, there is nothing smaller. `raise`.",
             when=lambda e: e.inputs[2] == "nothing fits"),
        Hint("Results are missing, or come twice: extend the list, and go on behind what has "
             "succeeded.", when=lambda e: "every item" in e.property),
        Hint("It goes on failing: {input}. Remember the smallest size that failed, and do not "
             "try it again.", when=lambda e: "attempts" in e.property and "ends" not in e.property),
        Hint("It did not end: here room becomes less, and a size that fitted fails. Then `fits` "
             "says nothing any more: begin again with fits = 0.",
             when=lambda e: "5,000" in e.got),
        Hint("It ended with an error though every item fits alone: there is less room than "
             "before. What fitted once need not fit now.", when=lambda e: e.inputs[2] == "moves"),
        "Keep fits = 0 and fails = None. Without fails, double; with it, take the middle.",
        "When a size fails that had fitted before, begin again: fits = 0.",
    ),
    must_fail=(
        "drops results",
        "doubles for ever",
        "endless at 1",
        "catches by text",
        "forgets the ceiling",
        "one item at a time",
    ),
)  # fmt: skip

EXERCISES = (
    first_fit,
    tensor_pool,
    cache_key,
    disk_cache,
    next_size,
    adaptive_batches,
    checkpoint_policy,
)
