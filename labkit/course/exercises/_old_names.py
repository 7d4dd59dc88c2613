"""Names of functions on storages as they were before 2021, and what one writes today."""

from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._never_right import CONSTANT, READS

DTYPES = {
    "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32,
    "Long": torch.int64, "Half": torch.float16, "Float": torch.float32, "Double": torch.float64,
}  # fmt: skip
GONE = ("retain", "free", "setFlag", "clearFlag")
LIVE = ("new", "newWithSize", "size", "get", "data", "resize")
CUDA = torch.device("meta")
"""Stands for the GPU: every machine has it, and a storage on it has a size and no bytes."""


def _named(*families: str, devices: tuple[str, ...] = ("",)) -> Any:
    """A name of one of these families, and a storage with an index to try it on."""

    def make(rng: Rng, size: int) -> tuple[str, bytes, int, int]:
        device, real = rng.choice(devices), rng.choice([*DTYPES])
        if device and real == "Float" and rng.chance(0.5):
            real = ""  # THCudaStorage was the one of floats
        count = 1 + rng.randint(0, size)
        itemsize = DTYPES[real or "Float"].itemsize
        content = bytes(rng.randint(0, 63) for _ in range(count * itemsize))
        name = f"TH{device}{real}Storage_{rng.choice(families)}"
        return name, content, rng.randint(0, 9), rng.randint(0, count - 1)

    return make


@handed_out
def parts_of(name: str) -> tuple[bool, torch.dtype, str]:
    """Whether it is of CUDA, its dtype, and its family."""
    words, _, family = name.partition("Storage_")
    cuda = words.startswith("THCuda")
    real = words.removeprefix("THCuda" if cuda else "TH")
    return cuda, DTYPES[real or "Float"], family


def _means(name: str, content: bytes, n: int, i: int) -> Any:
    cuda, dtype, family = parts_of(name)
    place = CUDA if cuda else torch.device("cpu")
    if family in GONE:
        return "gone"
    if family in ("new", "newWithSize"):
        return ("a storage", n * dtype.itemsize if family != "new" else 0, place.type)
    if family == "resize":
        return ("bytes of s", n * dtype.itemsize)
    if family == "data":
        return "the address of s"
    numbers = torch.frombuffer(bytearray(content), dtype=dtype)
    return numbers.numel() if family == "size" else numbers[i].item()


def _drive_names(answer: Any, name: str, content: bytes, n: int, i: int) -> Any:
    """What the expression comes to, run on a storage with this content."""
    text = answer(name)
    if text == "gone" or not isinstance(text, str):
        return text
    s = torch.UntypedStorage(len(content))
    torch.empty(0, dtype=torch.uint8).set_(s).copy_(
        torch.frombuffer(bytearray(content), dtype=torch.uint8)
    )
    address, names = s.data_ptr(), {"torch": torch, "s": s, "n": n, "i": i, "cuda": CUDA}
    got = eval(text, names)
    if parts_of(name)[2] == "resize":
        return ("bytes of s", s.nbytes())
    if isinstance(got, torch.UntypedStorage):
        return ("a storage", got.nbytes(), got.device.type)
    return "the address of s" if got == address and parts_of(name)[2] == "data" else got


def _family(evidence: Evidence) -> str:
    return parts_of(evidence.inputs[0])[2]


ANY = _named(*LIVE, *GONE, devices=("", "Cuda"))
today = Exercise(
    id="from_thstorage_to_storageimpl.today",
    rung="boss",
    case=ANY,
    expected=_means,
    drive=_drive_names,
    cases=100,
    minutes=25,
    stages=(
        Stage("size", case=_named("size", "data"), cases=20),
        Stage("new", case=_named("new", "newWithSize", "resize"), cases=30),
        Stage("get", case=_named("get"), cases=30),
        Stage("gone", case=_named(*GONE, *LIVE), cases=40),
        Stage("CUDA"),
    ),
    hints=(
        Hint(
            "{expected} is right here. A storage of today counts bytes: multiply by the item size.",
            when=lambda e: _family(e) in ("newWithSize", "resize") and e.kind == "value",
        ),
        Hint(
            "{expected} is right here. The old size counted elements, and s.nbytes() counts bytes: "
            "which item size has the dtype in the name?",
            when=lambda e: _family(e) == "size" and e.kind == "value",
        ),
        Hint(
            "A name with Cuda makes its storage on the GPU: device=cuda in your expression.",
            when=lambda e: "Cuda" in e.inputs[0] and _family(e) in ("new", "newWithSize"),
        ),
        Hint(
            "Nobody counts by hand any more, and there is no flag: the text is gone.",
            when=lambda e: e.right == "gone",
        ),
        Hint(
            "Lay a tensor of the right dtype over the storage: torch.empty(0, dtype=...).set_(s).",
            when=lambda e: _family(e) == "get",
        ),
        "Cut the name at Storage_: before it stands the dtype, behind it what was done.",
    ),
    must_fail=(
        "replaces a string",
        "knows the printed names alone",
        "returns expressions that raise",
        "maps CUDA names to CPU ones silently",
        CONSTANT,
        "counts elements, not bytes",
        "says gone to what it does not know",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        READS,
    ),
)
