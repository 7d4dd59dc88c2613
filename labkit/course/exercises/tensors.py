"""Tensors: the dtype of a mixed expression, who shares memory, and metadata without a tensor."""

import warnings
from typing import Any

import numpy as np
import torch

from labkit.core import dtype as dtypes
from labkit.core import promotion
from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._dtype_steps import NAMES, kind, number_dtype
from labkit.course.exercises._metadata_calls import metadata_from_call
from labkit.course.exercises._never_right import BANNED, CONSTANT, FIRST

NOTEBOOK = "1_fundamentals/3_tensors"

CATEGORIES = ("dimensioned", "zero-dim", "number")
NUMBERS = (True, 3, 200, 1.5, 2 + 1j)


# --- promote


def _operands(rng: Rng, size: int) -> tuple[list[tuple[str, Any]], str]:
    operands: list[tuple[str, Any]] = []
    for _ in range(1 + rng.randint(0, 1 + size // 2)):
        kind = rng.choice(CATEGORIES)
        operands.append((kind, rng.choice(NUMBERS if kind == "number" else NAMES)))
    return operands, rng.choice(("float32", "float64"))


def _promoted(operands: list[tuple[str, Any]], default: str) -> str:
    """By the rebuilt rules, which `labkit conformance promotion` holds to the installed torch."""
    before = promotion.get_default_dtype()
    promotion.set_default_dtype(dtypes.dtype(default))
    try:
        described: list[Any] = []
        for kind, what in operands:
            operand = promotion.WrappedNumber(what if kind == "number" else 0)
            if kind != "number":
                operand.dtype, operand.is_wrapped_number = dtypes.dtype(what), False
                operand.sizes = (1,) if kind == "dimensioned" else ()
            described.append(operand)
        return promotion.result_type(*described).name
    finally:
        promotion.set_default_dtype(before)


def _fewer_operands(operands: list[tuple[str, Any]], default: str) -> Any:
    for at in range(len(operands)):
        if len(operands) > 1:
            yield operands[:at] + operands[at + 1 :], default


def _kinds(evidence: Any) -> set[str]:
    return {kind for kind, _ in evidence.inputs[0]} if evidence.inputs else set()


def _some_complex(operands: list[tuple[str, Any]]) -> bool:
    return any("complex" in str(what) or isinstance(what, complex) for _, what in operands)


def _complex_from_below(evidence: Any) -> bool:
    """Whether both answers are complex, and no operand of the highest category is."""
    operands = evidence.inputs[0]
    highest = next(kind for kind in CATEGORIES if kind in _kinds(evidence))
    own = [operand for operand in operands if operand[0] == highest]
    both = {str(each)[:7] for each in (evidence.right, evidence.value)} == {"complex"}
    return both and not _some_complex(own)


def _one_tensor(rng: Rng, size: int) -> tuple[list[tuple[str, Any]], str]:
    return [("dimensioned", rng.choice(NAMES))], "float32"


def _only(*categories: str) -> Any:
    """Whether all operands are of these categories, and none is complex."""
    return lambda operands, default: all(
        category in categories and "complex" not in str(what) and not isinstance(what, complex)
        for category, what in operands
    )


promote = Exercise(
    id="tensors.promote",
    stages=(
        Stage("one tensor", case=_one_tensor, cases=13),
        Stage("dimensioned", only=_only("dimensioned")),
        Stage("numbers", only=_only("number")),
        Stage("three categories", only=_only(*CATEGORIES)),
        Stage("complex"),
    ),
    rules=("your own rules: no torch, no NumPy, no labkit",),
    case=_operands,
    expected=_promoted,
    smaller=_fewer_operands,
    cases=400,
    sizes=6,
    minutes=15,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "Wrong for {input}: does either of the two hold every value of the other? uint8 with "
            "int8 needs int16; float16 with bfloat16 needs float32.",
            when=lambda evidence: (
                len(evidence.inputs[0]) > 1 and _kinds(evidence) in ({"dimensioned"}, {"zero-dim"})
            ),
        ),
        Hint(
            "{input} raised. `join` and `rung` know no complex dtype: join the floats that it "
            "holds, then go back to complex.",
            when=lambda evidence: evidence.kind == "raised" and _some_complex(evidence.inputs[0]),
        ),
        Hint(
            "Numbers are joined like tensors, with number_dtype: the higher kind decides.",
            when=lambda evidence: len(evidence.inputs[0]) > 1 and _kinds(evidence) == {"number"},
        ),
        Hint(
            "Complex comes from a lower category: it takes the width of the float above, not its "
            "own. So not {got}.",
            when=_complex_from_below,
        ),
        Hint(
            "A Python number has a kind (bool, int, float, complex) but no width: it changes the "
            "answer only when its kind is higher than everything else, and then the default "
            "dtype gives the width.",
            when=lambda evidence: "number" in _kinds(evidence),
        ),
        "Split the operands into the three categories first, and promote inside each.",
        "Take the highest category that is not empty. A lower one counts only if its kind is "
        "higher (bool < int < float < complex); complex from below keeps the width of a float "
        "above.",
    ),
    must_fail=(
        "promotes by item size",
        "lets Python numbers widen",
        "ignores the default dtype for bool + float number",
        "treats 0-dim like dimensioned",
        "keeps the width of complex from below",
        "takes the last of several numbers",
        "knows no complex dtype",
        "a table for the printed examples",
        BANNED,
        FIRST,
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
    ),
)


# --- share_or_copy

CALLS = ("tensor", "as_tensor", "asarray", "from_numpy", "from_dlpack")
CODES = (
    "same_memory", "always_copies", "no_buffer", "other_dtype", "other_device", "negative_strides",
)  # fmt: skip
NAMES_THE_REASON = "the code names the reason"


def _creation(rng: Rng, size: int) -> tuple[dict[str, Any]]:
    call = rng.choice(CALLS)
    arrays_only = call in ("from_numpy", "from_dlpack")
    source = "ndarray" if arrays_only else rng.choice(("ndarray", "ndarray", "tensor", "list"))
    have = rng.choice(("float32", "float64", "int32", "int64"))
    asked = None if arrays_only or rng.chance(0.5) else rng.choice((have, "float32", "int64"))
    negative = source == "ndarray" and call != "from_dlpack" and rng.chance(0.25)
    writable = negative or source != "ndarray" or rng.chance(0.7)
    device = "meta" if not arrays_only and rng.chance(0.2) else "cpu"
    if device == "meta" and negative:
        negative = False
    return (
        {
            "call": call,
            "source": source,
            "source_dtype": have,
            "dtype": asked,
            "device": device,
            "step": -1 if negative else 1,
            "writable": writable,
        },
    )


def _created(call: dict[str, Any]) -> tuple[str, Any]:
    """What really happens: "shares", "copies" or "raises"."""
    array = np.arange(6).astype(call["source_dtype"])[:: call["step"]]
    array.flags.writeable = call["writable"]
    source: Any = array
    if call["source"] == "list":
        source = array.tolist()
    elif call["source"] == "tensor":
        source = torch.arange(6).to(getattr(torch, call["source_dtype"]))
    options = {}
    if call["call"] not in ("from_numpy", "from_dlpack"):
        options["device"] = call["device"]
        if call["dtype"]:
            options["dtype"] = getattr(torch, call["dtype"])
    try:
        with warnings.catch_warnings():  # tensor(tensor), and arrays that must not be written
            warnings.simplefilter("ignore")
            made = getattr(torch, call["call"])(source, **options)
    except ValueError:
        return "raises", None
    if call["source"] == "list" or made.device.type != "cpu":
        return "copies", made
    address = source.data_ptr() if call["source"] == "tensor" else array.ctypes.data
    return "shares" if made.data_ptr() == address else "copies", made


def _sharing(call: dict[str, Any]) -> tuple[str, str]:
    verdict, _ = _created(call)
    if verdict != "copies":
        return verdict, {"shares": "same_memory", "raises": "negative_strides"}[verdict]
    if call["call"] == "tensor":
        return verdict, "always_copies"
    if call["source"] == "list":
        return verdict, "no_buffer"
    other_device = call["device"] != "cpu"
    return verdict, "other_device" if other_device else "other_dtype"


def _judge_sharing(case: Case, got: Any) -> str | Wrong | None:
    verdict, code = right = _sharing(*case.inputs)
    if isinstance(got, Raised):
        return Wrong("the function answers for every call", right)
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        return Wrong("the answer is a pair (verdict, code)", right)
    if got[0] != verdict:
        return Wrong("the verdict is what the call really does", right)
    return None if got[1] == code else Wrong(NAMES_THE_REASON, right)


def _asked(evidence: Any) -> dict[str, Any]:
    return evidence.inputs[0] if evidence.inputs else {}


def _array_and_tensor(case: Case, got: Any, right: Any) -> Any:
    """The array and what the call makes of it, over the memory they have."""
    from labkit import show  # drawing is for a failing case alone

    (call,) = case.inputs
    array = np.arange(6).astype(call["source_dtype"])
    options = {"dtype": getattr(torch, call["dtype"])} if call["dtype"] else {}
    made = getattr(torch, call["call"])(array, **options)
    return show.strides(array, made, names=("the array", call["call"]))


share_or_copy = Exercise(
    id="tensors.share_or_copy",
    stages=(
        Stage("tensor", only=lambda call: call["call"] == "tensor" and call["step"] > 0),
        Stage("lists", only=lambda call: call["source"] == "list" and call["call"] != "tensor"),
        Stage("dtype and device", only=lambda call: call["step"] > 0),
        Stage("backwards"),
    ),
    picture=_array_and_tensor,
    rules=("predict, do not run: no torch, no NumPy, no labkit",),
    case=_creation,
    judge=_judge_sharing,
    cases=240,
    minutes=12,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "The failing call reads an array backwards. torch has no negative strides: it can "
            "neither describe that memory nor copies it for you.",
            when=lambda evidence: _asked(evidence).get("step") == -1,
        ),
        Hint(
            "What it does is right, the code is not: it is the first that applies, in the order of "
            "the task.",
            when=lambda evidence: evidence.property == NAMES_THE_REASON,
        ),
        Hint(
            "tensor, as_tensor and asarray copy what a list holds: there is no memory to share.",
            when=lambda evidence: _asked(evidence).get("source") == "list",
        ),
        Hint(
            "An array that must not be changed is shared like any other: torch only warns.",
            when=lambda evidence: (
                not _asked(evidence)["writable"] and evidence.expected.startswith("('shares'")
            ),
        ),
        Hint(
            "The failing call asks for a dtype or a device. Sharing means the same bytes: can "
            "they be read as the other dtype, or be in two places?",
            when=lambda evidence: (
                _asked(evidence).get("dtype") is not None or _asked(evidence).get("device") != "cpu"
            ),
        ),
        "Sharing needs a source with one buffer that torch can describe, the same dtype and the "
        "same device.",
        "Ask the questions in the order of the codes and stop at the first that applies.",
    ),
    must_fail=(
        "from_numpy always shares",
        "as_tensor always copies",
        "ignores a dtype change",
        "ignores device",
        "asks for the dtype before the device",
        "refuses a list",
        "copies what must not be changed",
        FIRST,
        CONSTANT,
        "catches every exception and returns a default",
    ),
)

EXERCISES = (kind, number_dtype, promote, share_or_copy, metadata_from_call)
