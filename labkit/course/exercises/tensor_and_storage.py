"""Tensor and storage: who holds the bytes, a file as a tensor, and old fields translated."""

import contextlib
import gc
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labkit.course.exercise import Exercise, Hint, Rng, handed_out

NOTEBOOK = "2_core_code/2_tensor_and_storage"

Statement = tuple[str, ...]


# --- refcounts


def _a_program(rng: Rng, size: int) -> tuple[list[Statement]]:
    program: list[Statement] = []
    names: list[str] = []
    saved: list[str] = []
    for _ in range(2 + 2 * size):
        kind = rng.choice(("create", "view", "view", "alias", "del", "del", "save", "release"))
        fresh = rng.choice("abcdef") if rng.chance(0.8) else (rng.choice(names or ["a"]))
        if kind == "create" or not names:
            statement: Statement = ("create", fresh)
        elif kind in ("view", "alias"):
            statement = (kind, fresh, rng.choice(names))
        elif kind == "del":
            statement = ("del", rng.choice(names))
        elif kind == "save":
            statement = ("save", f"node{len(program)}", rng.choice(names))
        elif saved:
            statement = ("release", rng.choice(saved))
        else:
            continue
        program.append(statement)
        if statement[0] in ("create", "view", "alias") and fresh not in names:
            names.append(fresh)
        elif statement[0] == "del":
            names.remove(statement[1])
        elif statement[0] == "save":
            saved.append(statement[1])
        elif statement[0] == "release":
            saved.remove(statement[1])
    return (program,)


def _deaths(program: list[Statement]) -> list[int | None]:
    """By really running it: a storage over a NumPy array dies when the array is given back."""
    deaths: list[int | None] = []
    held: dict[str, torch.Tensor] = {}
    now = 0

    def died(storage: int) -> None:
        deaths[storage] = now

    for now, (kind, name, *rest) in enumerate(program):  # noqa: B007 - `died` reads it
        if kind == "create":
            array = np.zeros(4)
            weakref.finalize(array, died, len(deaths)).atexit = False
            deaths.append(None)
            held[name] = torch.from_numpy(array)
            del array
        elif kind == "view":
            held[name] = held[rest[0]][:2]
        elif kind in ("alias", "save"):
            held[name] = held[rest[0]]
        else:
            del held[name]
    result = list(deaths)
    now = -1
    held.clear()
    return result


def _shorter_programs(program: list[Statement]) -> Any:
    for end in range(1, len(program)):
        yield (program[:end],)


def _uses(kind: str) -> Any:
    return lambda evidence: (
        bool(evidence.inputs) and any(statement[0] == kind for statement in evidence.inputs[0])
    )


refcounts = Exercise(
    id="tensor_and_storage.refcounts",
    statement=(
        "Write refcounts(program): statements are ('create', name), ('view', name, old), "
        "('alias', name, old) for name = old, ('del', name), ('save', node, name) for an autograd "
        "node that keeps the tensor, ('release', node). Assigning to a name that exists rebinds "
        "it. Return, per storage in the order of creation, the index of the statement at which "
        "its bytes are given back, or None if they outlive the program."
    ),
    rules=("count yourself: no torch, no NumPy, no labkit, no sys.getrefcount, no weakref",),
    case=_a_program,
    expected=_deaths,
    smaller=_shorter_programs,
    cases=300,
    minutes=15,
    difficulty=2,
    banned=("torch.*", "numpy.*", "labkit.*", "weakref.ref", "weakref.finalize", "sys.getrefcount"),
    hints=(
        Hint(
            "You freed a storage that a view still holds: in {input} look at what still names "
            "its bytes, not at what made them.",
            when=_uses("view"),
        ),
        Hint(
            "A saved tensor is one more holder. It lets go only at its 'release'.",
            when=_uses("save"),
        ),
        "Assigning to a name that exists drops what it named before, and that may be the last "
        "holder.",
        "Views count on the storage, not on the base: keep, per storage, the set of names and "
        "nodes that lead to it. It dies at the statement that empties the set.",
    ),
    must_fail=(
        "frees on del of the base though a view lives",
        "one count per tensor only",
        "ignores saved tensors",
        "ignores rebinding of a name",
        "frees twice",
        "remembers the answer of the first random case and returns it for all later cases",
        "returns the literal answer of the example in the statement",
    ),
)


# --- mapped_tensor


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


mapped_tensor = Exercise(
    id="tensor_and_storage.mapped_tensor",
    statement=(
        "Write mapped_tensor(path, nbytes, shared, grow, on_release): a labkit uint8 tensor over "
        "the first nbytes bytes of the file, memory-mapped. shared: writes reach the file; "
        "otherwise they stay private. A file that is too short is a ValueError, unless grow: then "
        "it is extended with zeros. on_release() is called exactly once, when the last tensor "
        "over the bytes is gone."
    ),
    rules=("build it from mmap, DataPtr and Storage: no torch.from_file, no numpy.memmap",),
    case=_a_file,
    expected=_mapping,
    drive=_drive_mapping,
    cases=120,
    minutes=20,
    difficulty=3,
    banned=("torch.*", "numpy.memmap", "numpy.fromfile", "labkit.memory.*"),
    hints=(
        Hint(
            "The file did not change in shared mode: reading it into memory makes a copy that "
            "nobody writes back. mmap.ACCESS_WRITE is the shared mode, ACCESS_COPY the private.",
            when=lambda evidence: bool(evidence.inputs) and evidence.inputs[2],
        ),
        Hint(
            "Refuse before you touch anything: after a ValueError the file is as it was and "
            "nothing was released.",
            when=lambda evidence: (
                bool(evidence.inputs) and evidence.inputs[1] > len(evidence.inputs[0])
            ),
        ),
        "Who owns the mapping: the storage, not the tensor. Views share the storage.",
        "Attach the unmapping to the storage's data pointer: DataPtr(address, device, context, "
        "deleter) calls deleter(context) once, when the last holder is gone.",
    ),
    must_fail=(
        "reads the file into memory",
        "deleter never called",
        "deleter called per view",
        "shared mode that does not write back",
        "off-by-header offset",
        "returns the right value but changes one of its inputs",
        "remembers the answer of the first random case and returns it for all later cases",
        "catches every exception and returns a default",
    ),
)


# --- field_translator

GONE = "gone: "
SUCCESSORS = ("the intrusive_ptr base", "the DataPtr", "nothing")
DTYPES = ("uint8", "int16", "float32", "float64", "complex128", "bool")
FIELDS = (
    "THTensor.size", "THTensor.stride", "THTensor.nDimension", "THTensor.storage",
    "THTensor.storageOffset", "THTensor.refcount", "THTensor.flag", "THStorage.data",
    "THStorage.size", "THStorage.refcount", "THStorage.allocatorContext", "THStorage.view",
)  # fmt: skip


def _a_field(rng: Rng, size: int) -> tuple[str, dict[str, Any]]:
    sizes = rng.sizes(rank=min(4, size), largest=4)
    return rng.choice(FIELDS), {
        "sizes": sizes,
        "dtype": rng.choice(DTYPES),
        "step": rng.choice((1, 2)),
        "skip": rng.randint(0, 3),
        "transpose": rng.chance(0.5),
    }


@handed_out
def built(sizes: Any, dtype: str, step: int, skip: int, transpose: bool) -> torch.Tensor:
    """A view with an offset, with gaps, perhaps transposed, over a larger storage."""
    strides: list[int] = []
    stride = step
    for length in reversed(sizes):
        strides.insert(0, stride)
        stride *= max(length, 1)
    room = skip + stride + 2
    tensor = torch.zeros(room, dtype=getattr(torch, dtype)).as_strided(sizes, strides, skip)
    return tensor.transpose(0, -1) if transpose and sizes else tensor


def _old_value(field: str, tensor: torch.Tensor) -> Any:
    return {
        "THTensor.size": tuple(tensor.shape),
        "THTensor.stride": tuple(tensor.stride()),
        "THTensor.nDimension": tensor.dim(),
        "THTensor.storageOffset": tensor.storage_offset(),
        "THStorage.size": tensor.untyped_storage().nbytes() // tensor.itemsize,
    }[field]


def _drive_translation(answer: Any, field: str, tensor: dict[str, Any]) -> str:
    """The text for a field that is gone; else whether its expression gives the old value."""
    text = answer(field)
    if not isinstance(text, str):
        return f"the answer is a string, not {type(text).__name__}"
    if text.startswith("gone: "):
        return text
    t = built(**tensor)
    value = eval(text, {"t": t})
    if hasattr(value, "data_ptr"):
        value = value.data_ptr()
    if isinstance(value, int) and value == t.untyped_storage().data_ptr():
        return "the storage's address"
    return repr(tuple(value) if isinstance(value, (tuple, list)) else value)


def _translated(field: str, tensor: dict[str, Any]) -> str:
    gone = {
        "THTensor.refcount": 0,
        "THStorage.refcount": 0,
        "THStorage.allocatorContext": 1,
        "THTensor.flag": 2,
        "THStorage.view": 2,
    }
    if field in gone:
        return GONE + SUCCESSORS[gone[field]]
    if field in ("THTensor.storage", "THStorage.data"):
        return "the storage's address"
    return repr(_old_value(field, built(**tensor)))


field_translator = Exercise(
    id="tensor_and_storage.field_translator",
    statement=(
        "Write field_translator(field): for a field of the old structs (THTensor.size, .stride, "
        ".nDimension, .storage, .storageOffset, .refcount, .flag; THStorage.data, .size, "
        ".refcount, .allocatorContext, .view) return a Python expression in t that yields its "
        "value on a live tensor (a storage is named by its address), or 'gone: ' and the "
        "successor: 'the intrusive_ptr base', 'the DataPtr' or 'nothing'."
    ),
    rules=("expressions are evaluated on views with gaps and offsets, of six dtypes",),
    case=_a_field,
    expected=_translated,
    drive=_drive_translation,
    cases=240,
    minutes=10,
    difficulty=2,
    hints=(
        Hint(
            "{input}: the old storage counted elements of its type; today's storage counts bytes.",
            when=lambda evidence: bool(evidence.inputs) and evidence.inputs[0] == "THStorage.size",
        ),
        "Wrong for a view: did you describe the tensor, or what it is a view of?",
        "Units: elements or bytes? The offset and the strides of a tensor count elements.",
        "untyped_storage() is the storage; its nbytes() divided by t.itemsize are its elements. A "
        "count you cannot read off a Python object moved into the intrusive_ptr base.",
    ),
    must_fail=(
        "stride as size",
        "size as storage size",
        "elements where bytes are meant",
        "offset in bytes",
        "expressions that only work on contiguous input",
        "returns the literal answer of the example in the statement",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
    ),
)

EXERCISES = (refcounts, mapped_tensor, field_translator)
