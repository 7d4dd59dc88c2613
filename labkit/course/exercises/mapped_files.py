"""Files that are mapped: how large they have to be, which pages are read, and a data set."""

import contextlib
import io
import math
import os
import pickle
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "5_optimization/3b_mapped_files"

# --- file_bytes


def _a_shape(rng: Rng, size: int, header: bool = True) -> tuple[Any, ...]:
    shape = tuple(rng.randint(0, 4 + size) for _ in range(rng.randint(0, 4)))
    if size == 7:
        shape = rng.randint(20_000, 50_000), 224, 224, 3  # more than 32 bits
    return shape, rng.choice((1, 2, 4, 8)), 64 * rng.randint(1, 3) if header else 0


file_bytes = Exercise(
    id="mapped_files.file_bytes",
    case=_a_shape,
    expected=lambda shape, itemsize, header: header + math.prod(shape) * itemsize,
    rung="warm-up",
    minutes=3,
    cases=60,
    stages=(Stage("no header", case=lambda rng, size: _a_shape(rng, size, False)),
            Stage("any header")),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("The header lies in the file, too.", stage="any header",
             when=lambda e: e.value == e.right - e.inputs[2]),
        Hint("The header is counted in bytes already.",
             when=lambda e: (
                 e.inputs[1] > 1 and e.value == e.right + e.inputs[2] * (e.inputs[1] - 1))),
        Hint("The header is as long as the argument says, not always 128 bytes.",
             when=lambda e: e.value == e.right - e.inputs[2] + 128),
        Hint("An array without dimensions holds one number: a product of nothing is 1.",
             when=lambda e: not e.inputs[0]),
        "math.prod(shape) is the count of numbers. Each takes itemsize bytes.",
    ),
    must_fail=("forgets the header", "numbers instead of bytes", "header in numbers",
               "wraps at 32 bits", "no dimension, no number", "a header of 128 bytes",
               FIRST),
)  # fmt: skip

# --- pages

PAGE = 4096


def _a_read(rng: Rng, size: int, aligned: bool = False) -> tuple[int, int]:
    first = PAGE * rng.randint(0, 3) if aligned else rng.randint(0, 3 * PAGE)
    edge = PAGE * rng.randint(1, 2 + size) - first % PAGE
    return first, max(1, rng.choice((1, edge, edge + 1, rng.randint(1, PAGE * (1 + size)))))


def _pages(first: int, count: int) -> int:
    return (first + count - 1) // PAGE - first // PAGE + 1


pages = Exercise(
    id="mapped_files.pages",
    case=_a_read,
    expected=_pages,
    rung="warm-up",
    minutes=4,
    cases=80,
    stages=(
        Stage("from the beginning of a page", case=lambda rng, size: _a_read(rng, size, True)),
        Stage("from anywhere"),
    ),
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("These bytes begin in the middle of a page, and reach into one more.",
             stage="from anywhere", when=lambda e: e.value == e.right - 1),
        Hint("The last byte is first + count - 1: it ends its page, and the next one is not read.",
             when=lambda e: e.value == e.right + 1 and sum(e.inputs) % PAGE == 0),
        Hint("Page 0 is where counting begins, and it is not touched: the first byte lies in page "
             "first // 4096.",
             when=lambda e: e.inputs[0] >= PAGE and e.value == -(-sum(e.inputs) // PAGE)),
        "Byte b lies in page b // 4096.",
        "Count the pages from that of the first byte to that of the last one.",
    ),
    must_fail=("count divided", "one page too many", "rounded up from the first byte",
               "rounded down", FIRST),
)  # fmt: skip

# --- mapped_dataset

SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda content: content[:-3],
    "long": lambda content: content + b"123",
    "half a header": lambda content: content[:40],
    "empty": lambda content: b"",
    "another format": lambda content: b"RIFF" + content[4:],
}
DAMAGED = ("", "empty", "short", "", "long", "half a header", "", "another format", "")
"""How a file is damaged in the cases of each size: so every check asks every way."""


Shard = tuple[tuple[int, ...], str, bool, int]
"""(shape, dtype, whether in Fortran order, seed of its numbers)."""


def _shards(rng: Rng, size: int, spoil: bool = True, fortran: bool = True) -> tuple[Any, ...]:
    large = size >= 3 and rng.chance(0.6)
    shape, dtype = (rng.randint(1, 4), rng.randint(2, 4)), rng.choice(("float32", "uint8", "int64"))
    if large:
        shape, dtype = (32, 32), "float32"
    shards: list[Shard] = []
    for _ in range(rng.randint(1, 2 + size // 3)):
        count = 100 if large else rng.randint(1, 4)
        shards.append(((count, *shape), dtype, fortran and rng.chance(0.4), rng.getrandbits(30)))
    damage = DAMAGED[size] if spoil else ""
    return shards, (rng.randrange(len(shards)), damage) if damage else None


NAMES = tuple(f"shard_{letter}.npy" for letter in "hgfedcba")
"""Of the files in their order, which is not that of the alphabet."""


@handed_out
def _array(shard: Shard) -> Any:
    shape, dtype, fortran, seed = shard
    array = np.random.default_rng(seed).integers(0, 200, shape).astype(dtype)
    return np.asfortranarray(array) if fortran else array


@handed_out
def _written(path: str, shard: Shard) -> None:
    """The array is in this file, behind a header of 128 bytes, or of 192 for an odd seed."""
    np.save(path, _array(shard))
    content = Path(path).read_bytes()
    if shard[3] % 2:
        length = int.from_bytes(content[8:10], "little")
        header = content[10 : 9 + length] + b" " * 64 + b"\n"
        start = content[:8] + len(header).to_bytes(2, "little")
        Path(path).write_bytes(start + header + content[10 + length :])


def _drive_shards(answer: Any, shards: list[Shard], damage: Any) -> dict[str, Any]:
    """What the data set gives, and what it costs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in NAMES[: len(shards)]]
        for path, shard in zip(paths, shards, strict=True):
            _written(path, shard)
        if damage:
            file = Path(paths[damage[0]])
            file.write_bytes(SPOILT[damage[1]](file.read_bytes()))
        before = [Path(path).read_bytes() for path in paths]
        given = list(paths)
        tracemalloc.start()
        try:
            frames = answer(given)
        except (ValueError, EOFError) as error:
            named = [n for n, path in enumerate(paths) if path in str(error)]
            return {"refused": named if isinstance(error, ValueError) else []}
        finally:
            opening = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        tracemalloc.start()
        first = frames[0]
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        positions = _positions(paths)
        items = [frames[n].clone() for n in range(len(frames))]
        seen: dict[str, Any] = {"opening": opening, "most": most, "items": items}
        now = _positions(paths)
        seen["positions moved"] = any(now.get(one, at) != at for one, at in positions.items())
        seen |= _sent(frames)
        first += 1
        seen["again"] = frames[0].clone()
        seen["paths changed"] = given != paths
        seen["files changed"] = before != [Path(path).read_bytes() for path in paths]
        try:
            frames[len(items)]
            seen["ends"] = False
        except IndexError:
            seen["ends"] = True
        return seen


@handed_out
def _positions(paths: list[str]) -> dict[tuple[int, int], int]:
    """(descriptor, file) -> the position of each of these files that is open in this process."""
    ours = {(one.st_dev, one.st_ino) for one in map(os.stat, paths)}
    found = {}
    for descriptor in range(256):
        with contextlib.suppress(OSError):  # not open
            one = os.fstat(descriptor)
            if (one.st_dev, one.st_ino) in ours:
                found[descriptor, one.st_ino] = os.lseek(descriptor, 0, os.SEEK_CUR)
    return found


@handed_out
def _sent(frames: Any) -> dict[str, Any]:
    """How many bytes a worker is sent, and the frames that it has then."""
    packed = io.BytesIO()
    try:
        Packs(packed, type(frames)).dump(frames)
        there = Unpacks(io.BytesIO(packed.getvalue()), type(frames)).load()
        items = [there[n] for n in range(len(there))]
    except Exception as error:
        return {"travels": 0, "there": f"{type(error).__name__}: {error}"}
    return {"travels": len(packed.getvalue()), "there": items}


class Packs(pickle.Pickler):
    """Packs objects of one class, which need not be found by its name."""

    def __init__(self, file: Any, kind: type) -> None:
        super().__init__(file)
        self.kind = kind

    def persistent_id(self, one: Any) -> Any:
        """The class stands for itself."""
        return "the class" if one is self.kind else None


class Unpacks(pickle.Unpickler):
    """Unpacks what `Packs` has packed."""

    def __init__(self, file: Any, kind: type) -> None:
        super().__init__(file)
        self.kind = kind

    def persistent_load(self, name: Any) -> Any:
        """The class."""
        return self.kind


def _frames_are(mine: list[Any], right: list[Any]) -> bool:
    return len(mine) == len(right) and all(map(_is, mine, right))


def _is(mine: Any, true: Any) -> bool:
    alike = mine.dtype == true.dtype and mine.shape == true.shape
    return alike and bool(torch.equal(mine, true))


def _judge_shards(case: Case, got: Any) -> Any:
    shards, damage = case.inputs
    arrays = [_array(shard) for shard in shards]
    if isinstance(got, Raised):
        return "MappedDataset(paths) has a length and gives frames"
    if damage:
        if got.get("refused") != [damage[0]]:
            return Wrong("a damaged file raises ValueError with its path", NAMES[damage[0]])
        return None
    if "refused" in got:
        return Wrong("these files are whole")
    right = [torch.from_numpy(np.ascontiguousarray(frame)) for array in arrays for frame in array]
    if len(got["items"]) != len(right):
        return Wrong("how many frames there are", len(right))
    for at, (mine, true) in enumerate(zip(got["items"], right, strict=True)):
        if not _is(mine, true):
            return Wrong(f"frame {at}", true)
    if not got["ends"]:
        return Wrong("[n] behind the last frame raises IndexError")
    if got["positions moved"]:
        return Wrong("no file stays open whose position moves: forked workers would share it")
    if got["paths changed"]:
        return Wrong("the list of paths stays as it was")
    if got["files changed"] or not torch.equal(got["again"], right[0]):
        return Wrong("writing into a frame changes no file, and no later frame")
    if isinstance(got["there"], str):
        return Wrong(f"a data set that was packed and unpacked gives frames; {got['there']}")
    if not _frames_are(got["there"], right):
        return Wrong("a data set that was packed and unpacked gives the same frames")
    size = sum(array.nbytes for array in arrays)
    if size > 200_000 and got["opening"] > 200_000:
        return Wrong("MappedDataset(paths) reads no frame: less than 200,000 bytes of memory")
    if size > 200_000 and got["most"] > 100_000:
        return Wrong("the first frame is read alone: less than 100,000 bytes of memory")
    if size > 200_000 and got["travels"] > 20_000:
        return Wrong("what a worker is sent holds no frames: less than 20,000 bytes")
    return None


def _of_another_type(e: Any) -> bool:
    word, _, number = e.property.partition(" ")
    if word != "frame" or not number.isdigit():
        return False
    mine = e.value["items"][int(number)]
    return str(mine.dtype) != f"torch.{e.inputs[0][0][1]}"


mapped_dataset = Exercise(
    id="mapped_files.mapped_dataset",
    case=_shards,
    judge=_judge_shards,
    drive=_drive_shards,
    show=lambda shards, damage: (
        f"{', '.join(NAMES[:len(shards)])}: "
        f"{[(*shard[:2], 'Fortran order' if shard[2] else 'C order') for shard in shards]}, "
        + (f"{NAMES[damage[0]]} is damaged: {damage[1]}" if damage else "all whole")),
    minutes=15,
    cases=24,
    apart=True,
    stages=(
        Stage("frames", case=lambda rng, size: _shards(rng, min(size, 2), False, False), cases=6),
        Stage("any order", case=lambda rng, size: _shards(rng, min(size, 2), False), cases=6),
        Stage("mapped", case=lambda rng, size: _shards(rng, 3 + size, False, False), cases=4),
        Stage("damaged files"),
    ),
    rules=("numpy and torch may be used, labkit not",),
    banned=("labkit.*",),
    hints=(
        Hint("The process ended: a tensor over read-only memory was written to. Copy the frame: "
             "np.array(frame).", when=lambda e: e.kind == "ended"),
        Hint("{input}: compare the size of the file with offset + nbytes of the mapped array.",
             stage="damaged files",
             when=lambda e: "damaged" in e.property and "refused" not in e.value),
        Hint("{input}: it was refused, but not by a ValueError with the path in its text.",
             stage="damaged files",
             when=lambda e: "damaged" in e.property and e.value["refused"] == []),
        Hint("Catch the ValueError of np.load, and raise one with the path in it.",
             stage="damaged files"),
        Hint("Map with np.load(path, mmap_mode=\"r\"), and copy one frame of it.", stage="mapped",
             when=lambda e: "read alone" in e.property or "reads no frame" in e.property),
        Hint("A forked worker has the same open file as you, with one position for both: between "
             "your seek and your read it may seek, too. Map instead, or open the file anew.",
             when=lambda e: "position moves" in e.property),
        Hint("Something that [n] needs was not packed. Leave out the maps alone.",
             when=lambda e: "packed and unpacked" in e.property),
        Hint("The files keep the order of `paths`. Sort nothing, and change nothing in the list.",
             when=lambda e: "stays as it was" in e.property),
        Hint("A mapped array in an attribute travels as numbers. Write __getstate__ without it, or "
             "map again for each frame.", stage="mapped", when=lambda e: "worker" in e.property),
        Hint("Behind the last frame, and nowhere else, [n] raises IndexError: it ends a loop over "
             "the data set.", when=lambda e: "raises IndexError" in e.property),
        Hint("What is written into a frame shows in a later one: both lie in the same memory, of a "
             "map or of a cache. Give away a copy every time.",
             when=lambda e: "no later frame" in e.property),
        Hint("The numbers are right, and their type is not: it is the file's.",
             when=_of_another_type),
        Hint("The header says in which order the numbers lie: let np.load read it.",
             stage="any order"),
        "Keep for each shard its path and how many frames it has. Frame n lies in the first shard "
        "whose frames reach beyond it.",
        "torch.from_numpy(np.array(np.load(path, mmap_mode=\"r\")[n]))",
    ),
    must_fail=(
        "loads the shard",
        "writable tensor over read-only memory",
        "ignores Fortran order",
        "trusts the header's shape",
        "sends the maps",
        "shares a file position",
        "does not name the file",
        "the first shard only",
        "in the order of the alphabet",
        "sorts the caller's list",
        "packs nothing",
        "packs no counts",
        "reads the files at once",
        "knows the length of the header",
        "goes on behind the end",
        "begins again behind the end",
        "keeps the frames it has given",
        "lets EOFError through",
        "names the file without its folder",
        "catches every exception and returns a default",
    ),
)  # fmt: skip

EXERCISES = (file_bytes, pages, mapped_dataset)
