"""`torch.cummax(x, 1).values` as an operator whose numbers C++ computes: what is asked of a port.

Source   torch/library.py  Library, register_fake, register_autograd, opcheck
"""

import ctypes
import itertools
from typing import Any

import torch

from labkit.core.host_compiler import shared_library
from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._cpp_matrix import (
    LONG,
    POINTER,
    a_matrix,
    first_wrong_matrix,
    laid_out,
)
from labkit.course.exercises._objective_cases import with_holes
from labkit.course.exercises.own_operator import compiler_is_ready, opcheck

KINDS = ("contiguous", "transposed", "gaps")
SIGNATURE = (POINTER, LONG, LONG, LONG, LONG, POINTER, LONG, LONG)
RUNNING_MAX = """
extern "C" void running_max(const double* x, long rows, long cols, long row_step, long col_step,
                            double* out, long out_row_step, long out_col_step) {
    for (long i = 0; i < rows; i++) {
        double best = 0;
        for (long j = 0; j < cols; j++) {
            double now = x[i * row_step + j * col_step];
            best = j > 0 && (best != best || best > now) ? best : now;
            out[i * out_row_step + j * out_col_step] = best;
        }
    }
}
"""
"""The largest number of each row up to every place; nan from the first nan on."""
PASSED = dict.fromkeys(
    ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"),
    "SUCCESS",
)
_numbers = itertools.count()


@handed_out
class Port:
    """The C++ function `running_max` of a source, as (x, out): two float64 matrices on the CPU.

    calls   how often it was called
    """

    def __init__(self, source: str) -> None:
        library = ctypes.CDLL(str(shared_library("running_max", source, "c++")))
        self.function, self.calls = library.running_max, 0
        self.function.argtypes, self.function.restype = SIGNATURE, None

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        self.calls += 1
        self.function(x.data_ptr(), *x.shape, *x.stride(), out.data_ptr(), *out.stride())


@handed_out
class registered:
    """The operator that an answer's `register` makes, in a library of its own, for as long."""

    def __init__(self, register: Any, port: Port) -> None:
        self.lib = torch.library.Library(f"labkit_port_{next(_numbers)}", "FRAGMENT")
        self.register, self.port = register, port

    def __enter__(self) -> Any:
        self.register(self.lib, self.port)
        return getattr(torch.ops, self.lib.ns).running_max

    def __exit__(self, *_error: object) -> None:
        self.lib._destroy()


def a_port(*asked: str, kinds: tuple[str, ...] = KINDS) -> Any:
    def case(rng: Rng, size: int) -> tuple[str, str, str, int, int, int]:
        if asked[size % len(asked)] == "gradient":
            compiler_is_ready()
        return asked[size % len(asked)], rng.choice(kinds), *a_matrix(kinds)(rng, size)

    return case


@handed_out
def with_ties(kind: str, rows: int, cols: int, seed: int) -> Any:
    """A matrix of this layout of quarters: many numbers come twice."""
    x = laid_out(kind, rows, cols, seed)
    x.mul_(4).round_().div_(4)
    return x[:, :0] if seed == 3 else x


@handed_out
def room(kind: str, x: torch.Tensor) -> Any:
    """Room for x's numbers in this layout, in the middle of memory full of nan."""
    rows, cols = x.shape
    return laid_out(kind, rows, max(cols, 1), 0).fill_(float("nan"))[:, :cols]


@handed_out
def outside_of(out: torch.Tensor) -> Any:
    """What lies in out's memory and is not out's: all of it was nan."""
    whole = torch.empty(0, dtype=out.dtype).set_(out.untyped_storage())
    kept = out.clone()
    out.fill_(float("nan"))
    untouched = bool(whole.isnan().all())
    out.copy_(kept)
    return untouched


@handed_out
def refused(call: Any) -> Any:
    """Say refused, or what came back."""
    try:
        return f"accepted: {call()}"
    except (TypeError, ValueError, RuntimeError):
        return "refused"


@handed_out
def _numbers_of(port: Port, register: Any, out_kind: str, *given: Any) -> Any:
    x = with_holes(*given)
    out, before = room(out_kind, x), x.clone()
    port(x, out)
    if str(x.tolist()) != str(before.tolist()):
        raise ValueError("running_max writes into x")
    return {"values": out.tolist(), "nothing beside out is written": outside_of(out)}


@handed_out
def _operator_of(port: Port, register: Any, out_kind: str, *given: Any) -> Any:
    x = with_holes(*given)
    with registered(register, port) as operator:
        values = operator.default(x)
        ran = port.calls
        there = operator.default(x.to("meta"))
        return {
            "values": values.tolist(),
            "calls of the C++": ran,
            "on meta": (there.device.type, str(there.dtype), tuple(there.shape)),
            "calls for meta": port.calls - ran,
            "float32": refused(lambda: operator.default(x.float())),
        }


@handed_out
def _gradient_of(port: Port, register: Any, out_kind: str, *given: Any) -> Any:
    x = with_ties(*given).requires_grad_()
    with registered(register, port) as operator:
        values = operator.default(x)
        (slope,) = torch.autograd.grad(values, x, weights(values))
        return {"gradient": slope.tolist(), "opcheck": opcheck(operator.default, (x,))}


@handed_out
def weights(values: torch.Tensor) -> Any:
    """What comes back into an operator's result: another number for every place."""
    return torch.arange(1.0, values.numel() + 1, dtype=values.dtype).view(values.shape)


@handed_out
def _out_of(port: Port, register: Any, out_kind: str, *given: Any) -> Any:
    x = with_holes(*given)
    with registered(register, port) as operator:
        fits, empty = room(out_kind, x), torch.empty(0, dtype=x.dtype)
        larger = torch.zeros(x.shape[0] + 1, x.shape[1] + 2, dtype=x.dtype)
        steps = fits.stride()
        back = operator.out(x, out=fits)
        sizes = []
        for other in (empty, larger):
            operator.out(x, out=other)
            sizes.append(other.tolist())
        return {
            "declared": str(operator.out._schema).partition("(")[2],
            "into out": fits.tolist(),
            "out comes back": back is fits and fits.stride() == steps,
            "nothing beside out is written": outside_of(fits),
            "into an empty out": sizes[0],
            "into a larger out": sizes[1],
            "out of float32": refused(lambda: operator.out(x, out=fits.float())),
            "out on meta": refused(lambda: operator.out(x, out=fits.to("meta"))),
        }


ASKED = {
    "numbers": _numbers_of, "operator": _operator_of, "gradient": _gradient_of, "out": _out_of
}  # fmt: skip


@handed_out
def _drive(answer: Any, asked: str, out_kind: str, *given: Any) -> Any:
    source, register = answer
    return ASKED[asked](Port(source()), register, out_kind, *given)


def _right(asked: str, out_kind: str, *given: Any) -> Any:
    x = with_holes(*given)
    values = torch.cummax(x, 1).values.tolist()
    if asked == "numbers":
        return {"values": values, "nothing beside out is written": True}
    if asked == "operator":
        return {
            "values": values, "calls of the C++": 1,
            "on meta": ("meta", "torch.float64", tuple(x.shape)), "calls for meta": 0,
            "float32": "refused",
        }  # fmt: skip
    if asked == "gradient":
        x = with_ties(*given).requires_grad_()
        found = torch.cummax(x, 1).values
        (slope,) = torch.autograd.grad(found, x, weights(found))
        return {"gradient": slope.tolist(), "opcheck": PASSED}
    return {
        "declared": "Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        "into out": values, "out comes back": True, "nothing beside out is written": True,
        "into an empty out": values, "into a larger out": values, "out of float32": "refused",
        "out on meta": "refused",
    }  # fmt: skip


def _wrong_numbers(evidence: Evidence) -> set[float]:
    """What stands where another number should; places that should be nan are left out."""
    rows = zip(evidence.value["values"], evidence.right["values"], strict=True)
    pairs = [pair for got, right in rows for pair in zip(got, right, strict=True)]
    return {got for got, right in pairs if right == right != got}


def _first_row(evidence: Evidence) -> bool:
    got, right = (side["values"] for side in (evidence.value, evidence.right))
    return len(right) > 1 and str(got[0]) == str(right[0])


def _off(name: str) -> Any:
    """Whether this is wrong, and what stands before it is right."""

    def wrong(evidence: Evidence) -> bool:
        got, right = evidence.value, evidence.right
        return [key for key in right if str(got[key]) != str(right[key])][:1] == [name]

    return wrong


def _described(asked: str, out_kind: str, kind: str, rows: int, cols: int, seed: int) -> str:
    into = "" if asked in ("operator", "gradient") else f", out is {out_kind}"
    return f"{asked}: x is {rows} by {0 if seed == 3 else cols}, {kind}{into}"


extension_port = Exercise(
    id="learning_objectives.extension_port",
    case=a_port("numbers", "operator", "gradient", "out"),
    expected=_right,
    drive=_drive,
    show=_described,
    picture=first_wrong_matrix,
    rung="boss",
    cases=12,
    sizes=11,
    seconds=30.0,
    minutes=40,
    processes=True,
    apart=True,
    banned=("torch.cummax", "torch.Tensor.cummax"),
    stages=(
        Stage("contiguous", case=a_port("numbers", kinds=("contiguous",)), cases=3),
        Stage("any layout", case=a_port("numbers"), cases=6),
        Stage("operator", case=a_port("operator"), cases=4),
        Stage("gradient", case=a_port("gradient"), cases=4),
        Stage("out", case=a_port("out"), cases=6),
        Stage("all"),
    ),
    hints=(
        Hint(
            "A row may have no numbers at all: read nothing before the loop.",
            when=lambda e: e.kind == "ended" and e.inputs[0] == "numbers" and e.inputs[-1] == 3,
        ),
        Hint(
            "The out form ran for a tensor that is not on the CPU. lib.impl(..., \"CPU\") puts a "
            "kernel in for the CPU alone.",
            when=lambda e: e.kind == "ended" and e.inputs[0] == "out",
        ),
        Hint(
            "A nan is lost. No comparison with nan is true: `x != x` says that x is nan.",
            when=lambda e: e.kind == "value" and not _wrong_numbers(e) and _off("values")(e),
        ),
        Hint(
            "The first number of a row is the largest so far, whatever it is: begin with it.",
            when=lambda e: e.kind == "value" and len(_wrong_numbers(e)) == 1,
        ),
        Hint(
            "The maximum starts anew in every row.",
            when=lambda e: e.kind == "value" and _first_row(e) and _off("values")(e),
            stage="contiguous",
        ),
        Hint("The numbers have to come from the C++, once for each call: running_max(x, out).",
             when=_off("calls of the C++")),
        Hint("On meta there are no numbers to compute with: torch.library.register_fake gives an "
             "empty result of x's sizes, dtype and device.",
             when=lambda e: _off("on meta")(e) or _off("calls for meta")(e), stage="operator"),
        Hint("Without numbers the result looks otherwise than with them. A transposed x: is your "
             "result transposed, or contiguous? x.new_empty(x.shape) is contiguous.",
             when=lambda e: e.value["opcheck"]["test_faketensor"] != "SUCCESS"),
        Hint("The C++ reads doubles. From float32 memory it would read nonsense: raise a "
             "TypeError before it does.", when=_off("float32")),
        Hint("A number may come twice in a row. The gradient goes to the last of them: the last "
             "place up to j where x equals out.", when=_off("gradient")),
        Hint("opcheck runs operator and gradient without numbers, too: is the gradient made of "
             "torch's functions and of the operator itself, and the result never x?",
             when=_off("opcheck")),
        Hint("The schema has to say that out is written, and comes back: Tensor(a!) twice.",
             when=_off("declared")),
        Hint("Write into out as it lies, with its two steps, and return out.",
             when=lambda e: _off("into out")(e) or _off("out comes back")(e)),
        Hint("out has another size. PyTorch resizes it: out.resize_(x.shape).",
             when=lambda e: _off("into an empty out")(e) or _off("into a larger out")(e)),
        Hint("The C++ writes doubles: refuse an out of another dtype.",
             when=_off("out of float32")),
        Hint("Element (i, j) of out is at out[i * out_row_step + j * out_col_step].",
             stage="any layout"),
        "Element (i, j) of x is x[i * row_step + j * col_step]; all of them are double.",
        "In register: lib.define twice, lib.impl twice, register_fake and register_autograd once.",
    ),
    must_fail=(
        "ignores the strides",
        "ignores the strides of out",
        "loses nan",
        "goes on from row to row",
        "starts from 0",
        "starts from a number that is small",
        "writes into x",
        "reads a number of a row that has none",
        "calls back into Python",
        "fake kernel runs real code",
        "takes over the layout of x",
        "reads float32 as double",
        "gradient to the first of equal numbers",
        "gradient to every place that equals the maximum",
        "has no formula for the gradient",
        "out variant that ignores resize rules",
        "resizes an empty out alone",
        "returns another tensor than out",
        "does not declare that out is written",
        "casts into an out of another dtype",
        "no check of devices",
    ),
)  # fmt: skip
