"""Python and C: what crosses the border between them, and who owns it."""

import math
import weakref
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._c_library import (
    a_tensor,
    drive_handles,
    drive_sum,
    handle_program,
)
from labkit.course.exercises._never_right import CATCHES, FIRST

NOTEBOOK = "2_core_code/10_python_meets_c"

# --- low_half


EDGES = (0, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32)


def _an_address(rng: Rng, size: int) -> tuple[int]:
    low = rng.choice(EDGES) if rng.chance(0.2) else rng.getrandbits(rng.choice((16, 31, 32, 40)))
    return (low + rng.choice((0, 0x7F00 << 32)),)


def _as_int(address: int) -> int:
    low = address % 2**32
    return low - 2**32 if low >= 2**31 else low


low_half = Exercise(
    id="python_meets_c.low_half",
    rung="warm-up",
    case=_an_address,
    expected=_as_int,
    show=lambda address: hex(address),
    cases=80,
    minutes=3,
    banned=("ctypes.*", "torch.*", "numpy.*", "struct.*"),
    hints=(
        Hint(
            "Exactly 2**31 has the highest bit set, too: it is not an int above 0.",
            when=lambda e: e.right == -(2**31) and e.value == 2**31,
        ),
        Hint(
            "An int has 32 bits: no result is below -2**31, and none is 2**31 or more.",
            when=lambda e: isinstance(e.value, int) and not -(2**31) <= e.value < 2**31,
        ),
        Hint(
            "The highest of the 32 bits is set. In an int it counts as -2**31, not as +2**31: the "
            "result is 2**32 smaller.",
            when=lambda e: isinstance(e.value, int) and e.right < 0 and e.value == e.right + 2**32,
        ),
        "address % 2**32 keeps the low 32 bits. If they are 2**31 or more, the int is negative.",
    ),
    must_fail=(
        "keeps the sign bit as a number",
        "drops 31 bits only",
        "keeps all bits",
        "forgets the smallest int",
        FIRST,
    ),
)

# --- readable

KINDS = ("whole", "row", "front", "turned", "gaps", "number", "empty", "repeated")
DTYPES = (torch.float32, torch.float64)
OTHERS = (torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16, torch.complex64)


def _any_tensor(rng: Rng, size: int) -> tuple[torch.Tensor]:
    return a_tensor(rng, size, KINDS, (torch.float32, torch.float32, *DTYPES, *OTHERS))


def _described(x: torch.Tensor) -> str:
    return f"{x.dtype}, sizes {tuple(x.shape)}, strides {x.stride()}, {x.tolist()}"


def _memory_drawn(case: Any, got: Any, right: Any) -> Any:
    """The tensor over its storage: which cells a plain walk would meet."""
    from labkit.show.strides import strides

    x = case.inputs[0]
    return strides(x) if x.numel() else None


readable = Exercise(
    id="python_meets_c.readable",
    rung="warm-up",
    case=_any_tensor,
    expected=lambda x: x.dtype == torch.float32 and x.is_contiguous(),
    picture=_memory_drawn,
    show=_described,
    cases=80,
    minutes=2,
    hints=(
        Hint(
            "C would read floats there. What are this tensor's elements?",
            when=lambda e: e.inputs[0].dtype != torch.float32,
        ),
        Hint(
            "Walk four bytes at a time. Do you meet this tensor's elements, in their order?",
            when=lambda e: not e.inputs[0].is_contiguous(),
        ),
        "Two questions: the type of the elements, and whether they lie side by side in order.",
    ),
    must_fail=("asks for the dtype only", "asks for the layout only", "compares strides with 1"),
)

# --- tensor_to_c


def _sum(x: torch.Tensor) -> Any:
    return float(x.double().sum()) if x.dtype in DTYPES else "a TypeError"


def _is_nan(evidence: Evidence) -> bool:
    return isinstance(evidence.value, float) and math.isnan(evidence.value)


def _of(kinds: tuple[str, ...], dtypes: Any) -> Any:
    return lambda rng, size: a_tensor(rng, size, kinds, dtypes)


tensor_to_c = Exercise(
    id="python_meets_c.tensor_to_c",
    case=_of(KINDS, (*DTYPES, *DTYPES, *DTYPES, *OTHERS)),
    expected=_sum,
    drive=drive_sum,
    picture=_memory_drawn,
    show=_described,
    stages=(
        Stage("floats", case=_of(("whole", "number", "front"), (torch.float32,))),
        Stage("layouts", case=_of(KINDS, (torch.float32,))),
        Stage("doubles", case=_of(KINDS, DTYPES)),
        Stage("refused", case=_of(KINDS, OTHERS)),
        Stage("together"),
    ),
    cases=100,
    minutes=12,
    banned=("torch.sum", "torch.Tensor.sum", "torch.Tensor.tolist", "torch.Tensor.item"),
    hints=(
        Hint(
            "There is no C function for this type. Refuse it with a TypeError.",
            stage="refused",
        ),
        Hint(
            "NaN: C was given an address whose memory is gone already. Who held the tensor that "
            "lay there, and until when?",
            when=_is_nan,
        ),
        Hint(
            "A float or double tensor is not refused. This error came out of your own code.",
            when=lambda e: e.kind == "raised",
        ),
        Hint(
            "sums has one function for each type that C can read. Take the one of x.dtype.",
            when=lambda e: not _is_nan(e) and e.inputs[0].dtype == torch.float64,
        ),
        Hint(
            "C walks from the address on, element by element. This tensor's elements do not lie "
            "so: make them, first.",
            when=lambda e: not _is_nan(e) and not e.inputs[0].is_contiguous(),
        ),
        "x.contiguous() has the elements side by side, and may be a new tensor: give it a name.",
    ),
    must_fail=(
        "ignores strides",
        "ignores offset",
        "converts into a temporary that dies first",
        "silently casts integers to float",
        "reads doubles as floats",
        "counts the elements of the storage",
        "rounds doubles to floats",
        "refuses with another error",
        FIRST,
    ),
)

# --- owned_handle


def _owned(lib: Any) -> Any:
    """What owns a counter rightly; in a function, out of an answer's reach."""

    class Right:
        def __init__(self) -> None:
            self.handle = lib.make()
            self.end = weakref.finalize(self, lib.drop, self.handle)

        def add(self, amount: int) -> None:
            if not self.end.alive:
                raise ValueError("closed")
            if lib.add(self.handle, amount):
                raise RuntimeError(lib.message().decode())

        def total(self) -> Any:
            if not self.end.alive:
                raise ValueError("closed")
            return lib.total(self.handle)

        def close(self) -> None:
            self.end()

        def __copy__(self) -> Any:
            raise TypeError("one owner")

        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("one owner")

    return Right()


def _handles(*extra: str) -> Any:
    return lambda rng, size: (handle_program(rng, size, *extra),)


def _noted(word: str) -> Any:
    def when(evidence: Evidence) -> bool:
        log = evidence.value["noted by the library"]
        return any(word in entry[0] for entry in log)

    return when


def _drops_fewer(evidence: Evidence) -> bool:
    counts = [
        sum(entry[0] == "drop" for entry in value["noted by the library"])
        for value in (evidence.value, evidence.right)
    ]
    return bool(counts[0] < counts[1])


def _said(program: Any) -> str:
    return "; ".join(" ".join(map(str, step)) for step in program)


def _first_off(evidence: Evidence) -> tuple[str, str]:
    """What the first step that went wrong said, and what it should have said."""
    yours, right = (list(map(str, v["each step"])) for v in (evidence.value, evidence.right))
    return next((pair for pair in zip(yours, right, strict=True) if pair[0] != pair[1]), ("", ""))


def _off(says: Any) -> Any:
    return lambda evidence: says(*_first_off(evidence))


@handed_out
def _without_words(value: Any) -> Any:
    """Errors of a closed counter and of a copy have any text: only their class is compared."""
    said = [
        text.partition(":")[0]
        if isinstance(text, str) and text.startswith(("ValueError", "TypeError"))
        else text
        for text in value["each step"]
    ]
    return value | {"each step": said}


owned_handle = Exercise(
    id="python_meets_c.owned_handle",
    case=_handles("errors", "close", "ends", "copies"),
    expected=lambda program: _without_words(drive_handles(_owned, program)),
    drive=lambda answer, program: _without_words(drive_handles(answer, program)),
    show=_said,
    stages=(
        Stage("use", case=_handles()),
        Stage("errors", case=_handles("errors")),
        Stage("ends", case=_handles("errors", "ends")),
        Stage("close", case=_handles("errors", "close", "ends")),
        Stage("copies"),
    ),
    cases=60,
    minutes=13,
    hints=(
        Hint(
            "The library was given a number that is none of its handles: all bits of it count.",
            when=lambda e: any(
                "no handle of mine" in entry for entry in e.value["noted by the library"]
            ),
        ),
        Hint(
            "A counter was used, or dropped, after it was dropped. close() and the object's end "
            "must share one switch.",
            when=_noted("of a dead one"),
        ),
        Hint(
            "A counter was not dropped, though nobody needs it any more. If you use finalize: what "
            "you hand it must not hold self, or self never dies. A method such as self.close does.",
            when=_drops_fewer,
        ),
        Hint(
            "message() gives bytes, because C has no str. Decode them: .decode().",
            when=_off(lambda yours, right: "b'" in yours),
        ),
        Hint(
            "lib.add returned 1, and Python went on as if nothing had happened.",
            when=_off(lambda yours, right: yours == "None" and right.startswith("RuntimeError")),
        ),
        Hint(
            "After close() a counter must not be used. self.end.alive says whether it is open.",
            when=_off(lambda yours, right: right == "ValueError"),
        ),
        Hint(
            "Two objects with one handle would drop it twice. Refuse a copy with a TypeError.",
            when=_off(lambda yours, right: right == "TypeError"),
        ),
        Hint(
            "An error that nobody asked for came out of your own code: see the step in the table.",
            when=_off(lambda yours, right: "Error" in yours),
        ),
        "self.end = weakref.finalize(self, lib.drop, self.handle): calling self.end() drops early, "
        "and only once.",
    ),
    must_fail=(
        "no destroy",
        "close and the end both destroy",
        "lets an error code pass",
        "raises the message as bytes",
        "shares a handle between copies",
        "keeps the low half of the handle",
        "uses a closed counter",
        CATCHES,
        "ends only in the reverse of the order of its beginnings",
        FIRST,
    ),
)

EXERCISES = (low_half, readable, tensor_to_c, owned_handle)
