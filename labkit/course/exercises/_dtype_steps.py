"""The small steps of the tensor chapter: the kind of a dtype, and the dtype of a number."""

from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng
from labkit.course.exercises._limits import LIBRARIES

NAMES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex32", "complex64", "complex128",
)  # fmt: skip
PLAIN = ("texts only: no torch, no NumPy, no labkit",)


def _kind(name: str) -> int:
    return 0 if name == "bool" else 3 if "complex" in name else 2 if "float" in name else 1


kind = Exercise(
    id="tensors.kind",
    rung="warm-up",
    case=lambda rng, size: (rng.choice(NAMES),),
    expected=_kind,
    rules=PLAIN,
    banned=LIBRARIES,
    cases=60,
    minutes=3,
    hints=(
        Hint("bfloat16 is a float, too.", when=lambda e: e.inputs == ("bfloat16",)),
        Hint("uint8 is an integer without a sign.", when=lambda e: e.inputs == ("uint8",)),
        'Ask for parts of the name: "float" in name.',
    ),
    must_fail=("takes uint8 for a bool", "takes bfloat16 for no float", "knows three kinds"),
)


def _number(rng: Rng, size: int) -> tuple[Any, str]:
    number = rng.choice((True, False, 0, 1, 200, -7, 0.0, 1.5, -2.0, 2j, 1 + 0j))
    return number, rng.choice(("float32", "float64"))


def _dtype_of(number: complex, default: str) -> str:
    if isinstance(number, bool):
        return "bool"
    if isinstance(number, int):
        return "int64"
    if isinstance(number, float):
        return default
    return "complex64" if default == "float32" else "complex128"


number_dtype = Exercise(
    id="tensors.number_dtype",
    rung="warm-up",
    case=_number,
    expected=_dtype_of,
    rules=PLAIN,
    banned=LIBRARIES,
    cases=80,
    minutes=3,
    hints=(
        Hint(
            "True is an int for Python: isinstance(True, int) is True. Ask for bool first.",
            when=lambda e: isinstance(e.inputs[0], bool),
        ),
        Hint(
            "A complex number is two floats of the default dtype: {input} gives {expected}.",
            when=lambda e: isinstance(e.inputs[0], complex),
        ),
        "The class decides, not the value: 2.0 is a float. A float takes the default dtype.",
    ),
    must_fail=("takes True for an int", "ignores the default dtype", "looks at the value"),
)
