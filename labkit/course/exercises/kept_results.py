"""Results kept on disk: whose they are, whether they are whole, how many, and what they may say."""

from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._cache_steps import RAN, Program, cache_key, unpacked
from labkit.course.exercises._limits import TORCH_AND_LABKIT

NOTEBOOK = "5_optimization/4b_kept_results"

# --- whole_file


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
        self.files.pop(name, None)
        self.files[name] = bytes(content)

    def rename(self, old: str, new: str) -> None:
        """The file has the new name, at once; what had it before is gone."""
        if self._dies():
            raise Died
        content = self.files.pop(old)
        self.files.pop(new, None)
        self.files[new] = content

    def read(self, name: str) -> bytes | None:
        """The content, or None."""
        return self.files.get(name)

    def delete(self, name: str) -> None:
        """There is no file of this name."""
        if self._dies():
            raise Died
        del self.files[name]

    def touch(self, name: str) -> None:
        """The file was used just now."""
        if self._dies():
            raise Died
        self.files[name] = self.files.pop(name)

    def sizes(self) -> dict[str, int]:
        """The bytes of each file; the one used longest ago comes first."""
        return {name: len(content) for name, content in self.files.items()}

    def damage(self, name: str, how: str, where: float) -> None:
        """The file is cut, some bits of it are others, or it is longer; its last use stays."""
        content = bytearray(self.files[name])
        at = int(where * len(content))
        if how == "cut":
            del content[at:]
        elif how == "longer":
            content += b"?"
        elif content:
            content[at] ^= 4
            if how == "flipped twice":  # what one byte has more, the other has less
                alike = [n for n, one in enumerate(content) if (one ^ content[at]) & 4 == 0]
                other = next((n for n in reversed(alike) if n != at), at)
                content[other] ^= 4 if other != at else 8
        self.files[name] = bytes(content)

    def _dies(self) -> bool:
        self.calls += 1
        return self.calls == self.dies_at


DAMAGES = ("cut", "flipped", "flipped twice", "longer")


def _stored(rng: Rng, size: int, damage: str = "") -> tuple[bytes, bytes, str, float]:
    old, new = (rng.randbytes(rng.randint(0, 4 + 8 * size)) for _ in range(2))
    kind = damage or rng.choice(("none", "killed", *DAMAGES))
    return old, new, kind, rng.random()


def _drive_file(answer: Any, old: bytes, new: bytes, damage: str, where: float) -> Any:
    """What load gives after what happened to the file."""
    store, load = answer
    folder = Folder()
    if load(folder, "frame") is not None:
        return "something, from an empty folder"
    store(folder, "frame", old)
    if damage == "killed":
        folder.dies_at = folder.calls + 1 + int(where * folder.calls)
    try:
        store(folder, "frame", new)
    except Died:
        found = load(folder, "frame")
        return "the old or the new one" if found in (old, new) else found
    if damage in DAMAGES:
        for name in folder.files:
            folder.damage(name, damage, where)
    return load(folder, "frame")


def _right_file(old: bytes, new: bytes, damage: str, where: float) -> Any:
    return {"none": new, "killed": "the old or the new one"}.get(damage)


whole_file = Exercise(
    id="kept_results.whole_file",
    case=_stored,
    expected=_right_file,
    drive=_drive_file,
    minutes=10,
    cases=80,
    stages=(
        Stage("there and back", case=lambda rng, size: _stored(rng, size, "none"), cases=10),
        Stage("killed", case=lambda rng, size: _stored(rng, size, "killed"), cases=15),
        Stage("damaged", case=lambda rng, size: _stored(rng, size, rng.choice(DAMAGES)), cases=40),
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
             and e.inputs[2] in DAMAGES),
        Hint("A damaged file was taken for whole. Put a checksum of the content in front of it, "
             "and look at it in load. A sum of the bytes is not enough: two changes can cancel.",
             when=lambda e: e.inputs[2] in DAMAGES),
        Hint("What was stored has no bytes, and is a content all the same: load gives b\"\", not "
             "None.", when=lambda e: e.inputs[1] == b""),
        "zlib.crc32(content).to_bytes(4, \"big\") gives four bytes.",
        "load returns None for everything that is not exactly what store has written.",
    ),
    must_fail=(
        "writes under the final name",
        "has no checksum",
        "knows the length only",
        "adds all bytes up",
        "takes an empty content for none",
        "fails on an empty folder",
        "deletes before it writes",
        "catches every exception and returns a default",
    ),
)  # fmt: skip

# --- disk_cache

KEYS = "abcdefg"
EXACT = 0
"""A limit of just the bytes that are there."""
EVENTS = ("put too much", "restart", "killed in put", "damage", "put a program")
Operation = tuple[Any, ...]


@handed_out
def _limit(limit: int, sizes: dict[str, int]) -> int:
    return limit or max(4_000, sum(sizes.values()))


@handed_out
def _frame_of(key: str) -> torch.Tensor:
    """What belongs to the key: always the same, as with a good key."""
    number = KEYS.index(key)
    return torch.full((40 + 350 * (number % 4),), 10 + number, dtype=torch.uint8)


def _operations(
    rng: Rng, size: int, events: tuple[str, ...] = EVENTS
) -> tuple[list[Operation], int]:
    """What happens, and the first limit: a file takes some 1,200 to 2,500 bytes."""
    limit = rng.randint(5_000, 9_000) if events else 10**6
    steps: list[Operation] = []
    for _ in range(6 + 4 * size):
        key, what = rng.choice(KEYS[: 2 + size]), rng.choice(("put", "get"))
        if events and rng.chance(0.3):
            what = rng.choice(events)
        if what in ("put", "get"):
            steps.append((what, key))
            continue
        if what == "put too much":
            key = "z"
            steps.append((what, key))
        elif what == "restart":
            steps.append((what, "", rng.choice((rng.randint(4_000, 9_000), EXACT))))
        elif what == "killed in put":
            key = rng.choice([one for _, one, *_ in steps if one in KEYS] or [key])
            steps.append((what, key, rng.choice((1, 1, 2, 3))))
        elif what == "damage":
            steps.append((what, key, rng.choice(("cut", "flipped")), rng.random()))
        else:
            steps.append((what, key))
        steps.append(("get", key))
    return steps, limit


def _drive_cache(answer: Any, steps: list[Operation], limit: int) -> list[dict[str, Any]]:
    """After each step: what get gave, what ran, and the files, the one used longest ago first."""
    folder, log = Folder(), []
    cache = answer(folder, limit)
    RAN.clear()
    for what, key, *rest in steps:
        got = None
        if what == "put":
            cache.put(key, _frame_of(key))
        elif what == "get":
            got = cache.get(key)
        elif what == "put too much":
            cache.put(key, torch.zeros(limit, dtype=torch.uint8))
        elif what == "put a program":
            cache.put(key, Program())
        elif what == "restart":
            limit = _limit(rest[0], folder.sizes())
            cache = answer(folder, limit)
        elif what == "killed in put":
            folder.dies_at = folder.calls + rest[0]
            try:
                cache.put(key, _frame_of(key))
            except Died:
                got = "killed"
            folder.dies_at = 0
            cache = answer(folder, limit)
        elif key in folder.files:
            folder.damage(key, *rest)
        log.append({"got": got, "ran": list(RAN), "files": folder.sizes()})
    return log


def _judge_cache(case: Case, got: Any) -> Any:
    """Replay with the sizes of the answer's own files: whatever format they have is right."""
    if isinstance(got, Raised):
        return "get and put return"
    steps, limit = case.inputs
    files: dict[str, int] = {}
    good, unsure = set[str](), set[str]()
    for at, ((what, key, *rest), seen) in enumerate(zip(steps, got, strict=True)):
        now, before = seen["files"], dict(files)
        limit = _limit(rest[0], files) if what == "restart" else limit
        told = f"step {at + 1}, {what} {key}".rstrip()
        if seen["ran"]:
            return Wrong(f"{told}: no program of a file runs", [])
        if what in ("put", "put a program"):
            if key not in now:
                return Wrong(f"{told}: afterwards there is a file {key!r}", [*files, key])
            files.pop(key, None)
            files[key] = now[key]
            good = good | {key} if what == "put" else good - {key}
            unsure.discard(key)
        elif what == "get":
            if key in unsure and seen["got"] is not None:
                good.add(key)
            unsure.discard(key)
            right = _frame_of(key) if key in good else None
            if not _is_frame(seen["got"], right):
                return Wrong(f"{told}: what was put, if it is there and whole", right)
            if right is not None:
                files[key] = files.pop(key)
            elif key in files:  # what is damaged may stay, go, or count as used
                files = {n: files.get(n, 0) for n in now if n in files}
        elif what == "damage" and key in files:
            files[key] = now[key]
            good, unsure = good - {key}, unsure - {key}
        elif what == "killed in put":
            if key in good and key not in now:
                return Wrong(f"{told}: the file {key!r} was there, and is lost", [*files])
            if strange := [name for name in now if name not in (*files, key)]:
                return Wrong(f"{told}, and again: no unfinished file is left", strange)
            files, unsure = dict(now), unsure | ({key} - good)
        while sum(files.values()) > limit:
            files.pop(next(iter(files)))
        good &= set(files)
        if sum(now.values()) > limit:
            return Wrong(f"{told}: all files together have at most {limit} bytes", dict(files))
        if list(now) != list(files):
            return Wrong(
                f"{told}: the files, used longest ago first (before: {list(before)})", list(files)
            )
    return None


def _is_frame(got: Any, right: torch.Tensor | None) -> bool:
    if right is None or not isinstance(got, torch.Tensor):
        return got is None and right is None
    return bool(torch.equal(got, right))


def _cache_told(steps: list[Operation], limit: int) -> str:
    words = {
        "put": "put {}",
        "get": "get {}",
        "put too much": "put {}, as many bytes as the limit and some more",
        "restart": "restart{} with limit {}",
        "killed in put": "put {}, killed in call {}, then restart",
        "damage": "file {} is {}",
        "put a program": "put {}, with a program inside",
    }
    said = "; ".join(words[what].format(*rest) for what, *rest in steps)
    said = said.replace(f"with limit {EXACT}", "with a limit of all that is there")
    return f"limit {limit} bytes: {said}"


def _stage_of(*events: str) -> Any:
    return lambda rng, size: _operations(rng, size, events)


disk_cache = Exercise(
    id="kept_results.disk_cache",
    case=_operations,
    judge=_judge_cache,
    drive=_drive_cache,
    show=_cache_told,
    minutes=15,
    cases=40,
    sizes=5,
    stages=(
        Stage("put and get", case=_stage_of(), cases=10),
        Stage("a limit", case=_stage_of(*EVENTS[:1]), cases=20),
        Stage("restart", case=_stage_of(*EVENTS[:2]), cases=20),
        Stage("killed", case=_stage_of(*EVENTS[:3]), cases=30),
        Stage("damaged, programs"),
    ),
    rules=("torch.save and torch.load are allowed; no labkit",),
    banned=("labkit.*",),
    hints=(
        Hint("A file named a program, and get let it run.",
             when=lambda e: "no program" in e.property),
        Hint("A frame that is larger than the limit has no place, and pushes nobody out: look at "
             "len(content) before you store it.",
             when=lambda e: "put too much z" in e.property),
        Hint("After a new start the limit may be smaller, or just what is there: then all of it "
             "stays. What a killed put has left may be too much, and unfinished files may lie "
             "about. Look at folder.sizes() in __init__.",
             when=lambda e: "restart" in e.property.partition(":")[0]
             or "unfinished" in e.property
             or ("killed" in e.property and "at most" in e.property)),
        Hint("The process was killed, and a whole file was lost: `store` writes elsewhere, then "
             "renames.", when=lambda e: "is lost" in e.property),
        Hint("All files together count, not their number: sum(folder.sizes().values()).",
             when=lambda e: "at most" in e.property),
        Hint("The files are right or nearly so, and the wrong one went, or in another order. "
             "folder.sizes() has the one used longest ago first; get calls folder.touch(key).",
             when=lambda e: "used longest ago first" in e.property),
        Hint("What was just put is gone, and fits into the limit: it is the last one to go.",
             when=lambda e: "afterwards there is a file" in e.property),
        Hint("get gives what was put. It gives None when there is no file, when its checksum is "
             "another, and when it holds no frame: load, then unpacked.",
             when=lambda e: "if it is there and whole" in e.property),
        "put: packed, store, then delete files from the front while they have too many bytes.",
    ),
    must_fail=(
        "counts entries",
        "limit ignored on restart",
        "deletes at the limit",
        "forgets at restart what is there",
        "leaves unfinished files",
        "non-atomic writes",
        "drops the one stored first",
        "drops the one used last",
        "what is too large empties it",
        "trusts torch.load to see damage",
        "loads arbitrary pickles",
        "catches every exception and returns a default",
    ),
)  # fmt: skip

EXERCISES = (cache_key, whole_file, unpacked, disk_cache)
