"""The storage chapter's boss: a file's bytes as a tensor, given back when the last view is gone."""

import contextlib
import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._never_right import FIRST


def _a_file(rng: Rng, size: int) -> tuple[bytes, int, bool, bool, dict[int, int]]:
    content = bytes(rng.randint(0, 255) for _ in range(rng.randint(1, 4 + 8 * size)))
    nbytes = rng.randint(1, len(content))
    if rng.chance(0.35):
        nbytes = len(content) + rng.randint(1, 20)
    writes = {rng.randint(0, nbytes - 1): rng.randint(0, 255) for _ in range(rng.randint(0, 3))}
    return content, nbytes, rng.chance(0.5), rng.chance(0.6), writes


def _drive_mapping(
    answer: Any, content: bytes, nbytes: int, shared: bool, grow: bool, writes: dict[int, int]
) -> dict[str, Any]:
    """Map, write, look at the file, delete it, let views go, and count the deleter's calls."""
    released: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.bin"
        path.write_bytes(content)
        try:
            tensor = answer(str(path), nbytes, shared, grow, lambda: released.append(1))
        except ValueError:
            return {"refused": True, "file": path.read_bytes(), "released": len(released)}
        seen: dict[str, Any] = {"sizes": tuple(tensor.shape), "first look": bytes(tensor.tolist())}
        for index, value in writes.items():
            tensor[index] = value
        seen["file after writing"] = path.read_bytes()
        view = tensor[nbytes // 2 :]
        with contextlib.suppress(OSError):
            path.unlink()
        del tensor
        seen["released while a view lives"] = len(released)
        seen["view after the file is gone"] = bytes(view.tolist())
        del view
        if not released:  # perhaps a reference cycle holds it; collecting takes a tenth of a second
            gc.collect()
        seen["released at the end"] = len(released)
    return seen


def _mapping(
    content: bytes, nbytes: int, shared: bool, grow: bool, writes: dict[int, int]
) -> dict[str, Any]:
    if nbytes > len(content) and not grow:
        return {"refused": True, "file": content, "released": 0}
    whole = bytearray(content.ljust(nbytes, b"\0"))
    first = bytes(whole[:nbytes])
    written = bytearray(whole)
    for index, value in writes.items():
        written[index] = value
    return {
        "sizes": (nbytes,),
        "first look": first,
        "file after writing": bytes(written if shared else whole),
        "released while a view lives": 0,
        "view after the file is gone": bytes(written[nbytes // 2 : nbytes]),
        "released at the end": 1,
    }


def _fits(content: bytes, nbytes: int, *_: Any) -> bool:
    return nbytes <= len(content)


def _file_beside(case: Case, got: Any, right: Any) -> Any:
    """The file after writing, beside what it should hold; None where the file is right."""
    from labkit import show

    name = "file after writing"
    files = [each[name] for each in (got, right) if isinstance(each, dict) and name in each]
    if len(files) < 2 or files[0] == files[1]:
        return None
    yours, wanted = (np.frombuffer(each, np.uint8) for each in files)
    return show.strides(yours, wanted, names=["your file", "should be"], compare=True)


def _differs(evidence: Evidence, *names: str) -> bool:
    """Whether one of these rows is there on both sides, and differs."""
    got, right = evidence.value, evidence.right
    return any(n in got and n in right and got[n] != right[n] for n in names)


mapped_tensor = Exercise(
    id="tensor_and_storage.mapped_tensor",
    rung="boss",
    rules=("build it from mmap and labkit_tensor: no torch.from_file, no numpy.memmap",),
    case=_a_file,
    expected=_mapping,
    drive=_drive_mapping,
    cases=120,
    minutes=25,
    banned=("torch.*", "numpy.memmap", "numpy.fromfile", "labkit.memory.*"),
    stages=(
        Stage("private", only=lambda *file: _fits(*file) and not file[2], cases=40),
        Stage("shared", only=lambda *file: _fits(*file) and file[2], cases=40),
        Stage("too short", only=lambda *file: not _fits(*file) and not file[3], cases=20),
        Stage("grow"),
    ),
    picture=_file_beside,
    apart=True,
    hints=(
        Hint(
            "The bytes were gone when the tensor was read. Only the context keeps the mapping: "
            "pass it as context, and close it in the deleter, not before.",
            when=lambda e: e.kind == "ended",
        ),
        Hint(
            "The file became shorter. `truncate` sets the length: it also cuts a file that is long "
            "enough. Call it only when the file must grow.",
            when=lambda e: (
                len(e.value["file after writing"]) < len(e.right["file after writing"])
                and len(e.right["file after writing"]) > e.inputs[1]
            ),
        ),
        Hint(
            "The file does not hold what it should. mmap.ACCESS_WRITE writes to the file, "
            "mmap.ACCESS_COPY keeps writes private; reading it into memory is neither.",
            when=lambda e: _differs(e, "file after writing"),
        ),
        Hint(
            "A file that is too short is refused before anything is touched: a ValueError, the "
            "file as it was, and on_release not called.",
            when=lambda e: "refused" in e.right,
        ),
        Hint(
            "This one was to be served, not refused: with grow, or where the file is long enough.",
            when=lambda e: "refused" in e.value,
        ),
        Hint(
            "on_release runs once, after the last tensor over the bytes is gone. Views share the "
            "storage, and the storage has the deleter: let the deleter call it. It is given the "
            "context, on_release() nothing.",
            when=lambda e: _differs(e, "released while a view lives", "released at the end"),
        ),
        "The deleter gets the context: hand over the mapping as context, and close it there.",
    ),
    must_fail=(
        "reads the file into memory",
        "deleter never called",
        "deleter called per view",
        "shared mode that does not write back",
        "cuts a longer file",
        "off-by-header offset",
        "returns the right value but changes one of its inputs",
        FIRST,
        "catches every exception and returns a default",
    ),
)
