"""Who refuses a dtype, what a macro writes, and a table of C functions to call by dtype."""

import ctypes
import re
import warnings
from typing import Any

import numpy as np
import torch

from labkit.core.host_compiler import load_library
from labkit.course.documents import dtype_switch
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._c_vectors import NAMES, generic_add
from labkit.course.exercises._macro_steps import filled, owner
from labkit.course.exercises._never_right import BANNED

NOTEBOOK = "2_core_code/4_dtype_dispatch"

# --- dtype_table

THIRTEEN = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64,
    torch.complex128,
)  # fmt: skip

CODES = {
    0: "Byte", 1: "Char", 2: "Short", 3: "Int", 4: "Long", 5: "Half", 6: "Float", 7: "Double",
    8: "ComplexHalf", 9: "ComplexFloat", 10: "ComplexDouble", 11: "Bool", 15: "BFloat16",
}  # fmt: skip
"""ScalarType code -> PyTorch's name. Source: c10/core/ScalarType.h."""


class _Vector(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("n", ctypes.c_int64))


class AddFunctions:
    """The compiled C functions by name: functions["FloatVector_add"](c, a, b).

    c, a, b   one-dimensional tensors. As C does, a function takes the bytes from data_ptr on for
              its own dtype and never asks for the tensor's dtype or stride

    Raises   KeyError      nobody compiled a function of that name
             MemoryError   it would touch bytes that the tensor's storage does not have
             ValueError    the function refused unequal lengths
    """

    def __init__(self) -> None:
        self._library = load_library(lambda: dtype_switch.build("macros"))
        self._widths = {f"{n}Vector_add": np.dtype(d).itemsize for n, (_, d) in NAMES.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._widths

    def keys(self) -> list[str]:
        """The names of all functions."""
        return list(self._widths)

    def __getitem__(self, name: str) -> Any:
        width = self._widths[name]
        function = self._library[name]

        def call(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
            vectors = []
            for label, x in (("c", c), ("a", a), ("b", b)):
                room = x.untyped_storage().nbytes() - x.storage_offset() * x.itemsize
                if x.numel() * width > max(room, 0):
                    raise MemoryError(
                        f"{name} would touch {x.numel() * width} bytes of {label}, which has "
                        f"{room} ({x.dtype})"
                    )
                vectors.append(_Vector(x.data_ptr(), x.numel()))
            if function(*map(ctypes.byref, vectors)):
                raise ValueError(f"{name} refused lengths {[x.n for x in vectors]}")

        return call


COMPILED = tuple(torch.tensor(np.zeros(1, dtype)).dtype for _, dtype in NAMES.values())
"""The dtypes that have a function; THIRTEEN has five more."""


def _operand(rng: Rng, length: int, dtype: torch.dtype, steps: tuple[int, ...]) -> torch.Tensor:
    step = rng.choice(steps)
    skip = rng.randint(0, 2)
    numbers = torch.randint(-9, 10, (skip + length * step,), generator=rng.generator())
    if dtype in (torch.int32, torch.int64) and rng.chance(0.6):
        shift = 31 if dtype == torch.int32 else 60
        numbers = numbers * (1 << shift - 4) + 1
    elif dtype.is_floating_point or dtype.is_complex:
        numbers = numbers / 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex32 calls itself experimental
        with_dtype = (numbers > 0) if dtype == torch.bool else numbers.to(dtype)
    return with_dtype[skip::step] if length else with_dtype[:0]


Tensors = tuple[torch.Tensor, torch.Tensor]


def _mixed(rng: Rng, size: int, part: str = "together") -> tuple[list[Tensors]]:
    """Pairs of vectors.

    part  "same dtype" and "two dtypes": pairs whose common dtype has a function; "steps": of the
          same dtype, read with steps; "refused": no function has the common dtype; "together":
          every dtype with every other, some with steps
    """
    steps = {"steps": (2, 3), "together": (1, 1, 2, 3)}.get(part, (1,))
    pairs = []
    for a in THIRTEEN:
        for b in THIRTEEN:
            kind = "steps" if part == "steps" and a == b in COMPILED else _kind_of_pair(a, b)
            if part in ("together", kind):
                length = rng.randint(0, 1 + size // 2)
                pairs.append((_operand(rng, length, a, steps), _operand(rng, length, b, steps)))
    return (pairs,)


def _kind_of_pair(a: torch.dtype, b: torch.dtype) -> str:
    if torch.promote_types(a, b) not in COMPILED:
        return "refused"
    return "same dtype" if a == b else "two dtypes"


def _part(part: str) -> Stage:
    return Stage(part, case=lambda rng, size: _mixed(rng, size, part), cases=3)


def _mixed_sums(pairs: list[Tensors]) -> list[Any]:
    results: list[Any] = []
    for a, b in pairs:
        if torch.result_type(a, b) in COMPILED:
            results.append(a + b)
        else:
            results.append(f"TypeError naming {short(a.dtype)} and {short(b.dtype)}")
    return results


@handed_out
def short(dtype: torch.dtype) -> str:
    """A dtype without "torch."."""
    return str(dtype).removeprefix("torch.")


def _drive_table(answer: Any, pairs: list[Tensors]) -> list[Any]:
    """Every sum, or the error: whether it is a TypeError whose text names both dtypes."""
    functions = AddFunctions()
    results: list[Any] = []
    for a, b in pairs:
        try:
            result = answer(functions, a, b)
        except NotImplementedError:  # the stub
            raise
        except Exception as error:
            names = [short(a.dtype), short(b.dtype)]
            named = all(re.search(rf"\b{name}\b", str(error)) for name in names)
            if isinstance(error, TypeError) and named:
                results.append(f"TypeError naming {names[0]} and {names[1]}")
            else:
                results.append(f"{type(error).__name__}: {error}")
            continue
        results.append(result)
    return results


def _single_pairs(pairs: list[Tensors]) -> Any:
    if len(pairs) > 1:
        for pair in pairs:
            yield ([pair],)


def _show_pairs(pairs: list[Tensors]) -> str:
    return "\n".join(_show_pair(a, b) for a, b in pairs)


def _show_pair(a: torch.Tensor, b: torch.Tensor) -> str:
    layout = (
        "" if a.is_contiguous() and b.is_contiguous() else f"  (strides {a.stride()}, {b.stride()})"
    )
    return f"{short(a.dtype)} {a.tolist()} + {short(b.dtype)} {b.tolist()}{layout}"


def _strided(evidence: Any) -> bool:
    """Whether the pair that came out wrong is not contiguous."""
    found = re.match(r"\[(\d+)\] element", evidence.property)
    return found is not None and not all(
        x.is_contiguous() for x in evidence.inputs[0][int(found[1])]
    )


def _served(evidence: Any) -> bool:
    """Whether a pair was refused that has a function, and one of the two dtypes has none."""
    (pairs,) = evidence.inputs
    return any(
        isinstance(right, torch.Tensor)
        and f"{value}".startswith(("TypeError", "KeyError"))
        and not {a.dtype, b.dtype} <= set(COMPILED)
        for (a, b), value, right in zip(pairs, evidence.value, evidence.right, strict=True)
    )


def _beside(case: Case, got: Any, right: Any) -> Any:
    """The first sum of the right dtype with wrong numbers, beside the right one."""
    from labkit import show

    for ours, wanted in zip(got if isinstance(got, list) else [], right, strict=False):
        if not (isinstance(ours, torch.Tensor) and isinstance(wanted, torch.Tensor)):
            continue
        alike = ours.dtype == wanted.dtype and ours.shape == wanted.shape
        if alike and not torch.equal(ours, wanted):
            return show.strides(ours, wanted, names=["yours", "right"], compare=True)
    return None


dtype_table = Exercise(
    id="dtype_dispatch.dtype_table",
    rules=(
        "torch may promote, cast and allocate; the adding is done by the C functions",
        "a and b stay as they are",
    ),
    case=_mixed,
    expected=_mixed_sums,
    drive=_drive_table,
    smaller=_single_pairs,
    show=_show_pairs,
    cases=6,
    seconds=60.0,
    processes=True,
    minutes=15,
    stages=(
        *map(_part, ("same dtype", "two dtypes", "steps", "refused")),
        Stage("together"),
    ),
    picture=_beside,
    banned=(
        "torch.add",
        "torch.Tensor.add",
        "torch.Tensor.add_",
        "torch.Tensor.__add__",
        "torch.Tensor.__radd__",
        "torch.Tensor.__iadd__",
        "torch.sub",
        "torch.Tensor.sub",
        "torch.Tensor.__sub__",
        "torch.sum",
        "torch.Tensor.sum",
        "labkit.course.documents.dtype_switch.add",
    ),
    hints=(
        Hint(
            "The C function knows no strides: it takes the bytes from data_ptr on, "
            "one after the other. Some of these vectors are slices with a step.",
            when=_strided,
            stage="steps",
        ),
        Hint(
            "Promote first, look up second: both operands must have the dtype of the function "
            "before it is called, and so must c.",
            when=lambda evidence: "MemoryError" in evidence.got,
        ),
        Hint(
            "The common dtype of this pair has a function, though a or b alone has none: float16 "
            "with bfloat16 is added in float32. Look the common dtype up, not that of a or b.",
            when=_served,
        ),
        Hint(
            "Nobody compiled a function for this common dtype. There is no default: raise a "
            "TypeError that names both dtypes.",
            when=lambda evidence: "TypeError naming" in f"{evidence.property}{evidence.expected}",
        ),
        Hint(
            "Two dtypes were added in the wrong one, as int32 with int64 in int32. Which dtype "
            "holds both? {input}",
            stage="two dtypes",
        ),
        "Promote first, look up second.",
        "Four steps: the common dtype, both vectors in it and without gaps, a new vector for the "
        "sum, and the function whose name begins with NAMES[common].",
    ),
    must_fail=(
        "promotes to float always",
        "falls through to float32",
        "error without names",
        "converts inputs in place",
        "returns the right value but changes one of its inputs",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        BANNED,
    ),
)

EXERCISES = (owner, filled, generic_add, dtype_table)
