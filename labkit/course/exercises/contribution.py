"""An operator brought into labkit, from its schema to the review; and the review of others."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import labkit as lab
from labkit.conformance.autograd.lockstep import twin_of
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._float_arrays import NUMBERS, TINY, new_array, two_arrays
from labkit.course.exercises._never_right import CATCHES
from labkit.course.exercises._patches import PATCHES
from labkit.course.exercises._review_pictures import (
    Found,
    Reviewed,
    beside_the_fault,
    missed,
    red,
    reviewed,
    tried_on,
)
from labkit.course.exercises._xlogy import with_formulas
from labkit.course.review import planted

NOTEBOOK = "3_internals/10_contribution"


# --- looks

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float32, torch.float64)
}
Side = tuple[tuple[int, ...], str]


def _two_sides(rng: Rng, size: int, *dtypes: str) -> tuple[Side, Side]:
    whole = tuple(rng.randint(0, 4) for _ in range(min(size, 3)))

    def one() -> tuple[int, ...]:
        kept = whole[rng.randint(0, len(whole)) :] if rng.chance(0.3) else whole
        return tuple(1 if rng.chance(0.3) else n for n in kept)

    names = dtypes or tuple(DTYPES)
    return (one(), rng.choice(names)), (one(), rng.choice(names))


@handed_out
def _drive_looks(answer: Any, self_: Side, other: Side) -> tuple[tuple[int, ...], str]:
    made = [lab.empty(shape, dtype=getattr(lab, dtype)) for shape, dtype in (self_, other)]
    shape, dtype = answer(*made)
    return tuple(shape), str(dtype).rpartition(".")[2]


def _right_looks(self_: Side, other: Side) -> tuple[tuple[int, ...], str]:
    made = [torch.empty(shape, dtype=DTYPES[dtype]) for shape, dtype in (self_, other)]
    right = torch.xlogy(*made)
    return tuple(right.shape), str(right.dtype).removeprefix("torch.")


looks = Exercise(
    id="contribution.looks",
    case=_two_sides,
    expected=_right_looks,
    drive=_drive_looks,
    show=lambda a, b: f"self {a[1]}{list(a[0])}, other {b[1]}{list(b[0])}",
    picture=red("meta"),
    rung="warm-up",
    cases=120,
    sizes=4,
    minutes=4,
    stages=(
        Stage("float32", case=lambda rng, size: _two_sides(rng, size, "float32"), cases=20),
        Stage("all dtypes"),
    ),
    hints=(
        Hint(
            "The shape is wrong here: lab.broadcast_shapes(self.shape, other.shape).",
            when=lambda e: e.value[0] != e.right[0],
        ),
        Hint(
            "Two whole numbers: the logarithm is none, so the result is float32.",
            when=lambda e: not any("float" in dtype for _, dtype in e.inputs),
        ),
        Hint(
            "One side alone does not decide the dtype: ask lab.result_type(self, other).",
            when=lambda e: e.value[1] != e.right[1],
        ),
        "Ask lab.result_type(self, other). What if it is no floating type?",
    ),
    must_fail=(
        "keeps whole numbers",
        "takes the shape of self",
        "takes the dtype of self",
        "always float32",
        "gives float64 for whole numbers",
    ),
)


# --- numbers


def _right_numbers(x: Any, y: Any) -> Any:
    return torch.xlogy(torch.from_numpy(x), torch.from_numpy(y)).tolist(), x.dtype.name


numbers = Exercise(
    id="contribution.numbers",
    case=two_arrays,
    expected=_right_numbers,
    drive=new_array,
    show=lambda x, y: f"x = {x.tolist()}, y = {y.tolist()}, {x.dtype.name}",
    picture=red("numbers"),
    rung="warm-up",
    cases=150,
    tolerance=1e-12,
    minutes=4,
    banned=("torch.*", "labkit.*"),
    stages=(
        Stage("x is not 0", case=lambda rng, size: two_arrays(rng, size, 0.5, 1.0, 3.0), cases=15),
        Stage("x may be 0", case=lambda rng, size: two_arrays(rng, size, 0.0, 0.5, 3.0), cases=15),
        Stage("odd numbers"),
    ),
    hints=(
        Hint(
            "x and y belong to the caller: compute a new array.",
            when=lambda e: e.kind == "mutated" or e.value == "no new array",
        ),
        Hint(
            "An array without dimensions: of it NumPy computes a plain number, and `[...] = ` does "
            "not write to that. np.where takes both.",
            when=lambda e: e.kind == "raised" and "item assignment" in e.got,
        ),
        Hint(
            "x and y may be float32, and the result is of their dtype.",
            when=lambda e: e.value[1] != e.right[1] == "float32",
        ),
        Hint(
            "np.where(condition, a, b) takes a where the condition holds.",
            when=lambda e: 0 in e.inputs[0] and not np.isnan(e.inputs[1]).any(),
            stage="x may be 0",
        ),
        Hint(
            "np.isnan(y) says where y is nan. There the result is nan, whatever x is.",
            when=lambda e: "nan" in e.expected and np.isnan(e.inputs[1]).any(),
            stage="odd numbers",
        ),
        Hint(
            "Only 0 itself counts as 0: 1e-300 times an infinite logarithm is infinite.",
            when=lambda e: e.kind == "value" and TINY in e.inputs[0],
        ),
        "np.where computes both sides for every number, and picks then.",
    ),
    must_fail=(
        "computes x * log(y) everywhere",
        "gives 0 for y = nan",
        "gives 0 where y is not positive",
        "writes into x",
        "looks at the first number alone",
        "takes a tiny number for 0",
        "loses a tiny y",
        "gives another dtype",
        "gives a list",
        "gives back x",
    ),
)


# --- formulas


def _a_point(*numbers: float, factors: tuple[float, ...] = (1.0, 2.0)) -> Any:
    def case(rng: Rng, size: int) -> tuple[list[float], list[float], float]:
        drawn = numbers or NUMBERS
        count = 1 + size // 3
        made = [[rng.choice(drawn) for _ in range(count)] for _ in range(2)]
        return made[0], made[1], rng.choice(factors)

    return case


def _slopes(self_: list[float], other: list[float], grad: float) -> dict[str, list[float]]:
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (self_, other)]
    result = torch.xlogy(*leaves)
    found = torch.autograd.grad(result, leaves, torch.full_like(result, grad))
    return {"self": found[0].tolist(), "other": found[1].tolist()}


@handed_out
def _drive_formulas(
    answer: Any, self_: list[float], other: list[float], grad: float
) -> dict[str, list[float]]:
    leaves = [
        twin_of(torch.tensor(x, dtype=torch.float64, requires_grad=True)) for x in (self_, other)
    ]
    with with_formulas(answer()).in_labkit() as xlogy:
        result = xlogy(*leaves)
        given = twin_of(torch.full((len(self_),), grad, dtype=torch.float64))
        found = lab.autograd.grad([result], leaves, [given])
    return {"self": found[0].tolist(), "other": found[1].tolist()}


def _slope_off(name: str, due: str = "") -> Any:
    """Whether a slope is wrong; with `due`, only one that should be that."""

    def off(evidence: Evidence) -> bool:
        both = zip(map(str, evidence.value[name]), map(str, evidence.right[name]), strict=True)
        return any(got != right and due in ("", right) for got, right in both)

    return off


formulas = Exercise(
    id="contribution.formulas",
    case=_a_point(factors=(1.0, 2.0, 0.0)),
    expected=_slopes,
    drive=_drive_formulas,
    show=lambda self_, other, grad: f"self = {self_}, other = {other}, grad = {grad}",
    picture=red("gradient"),
    cases=40,
    tolerance=1e-12,
    minutes=8,
    stages=(
        Stage("plain", case=_a_point(0.5, 1.0, 3.0), cases=8),
        Stage("self is 0", case=_a_point(0.0, 0.5, -1.0), cases=10),
        Stage("grad is 0"),
    ),
    hints=(
        Hint("Of x * log(y), the slope for x is log(y), and for y it is x / y. Both times grad.",
             stage="plain"),
        Hint(
            "Where self is 0 and other is not positive, the slope for self has to be 0. Which "
            "mask says both?",
            when=lambda e: e.stage == "self is 0" and _slope_off("self")(e),
        ),
        Hint(
            "0 times nan stays nan: a mask hides it. Which operator counts 0 * log(0) as 0, and "
            "keeps nan? aten.xlogy.Tensor(grad, other).",
            when=lambda e: e.inputs[2] == 0.0 and _slope_off("self", due="nan")(e),
        ),
        Hint(
            "grad is 0 here, and the slope for self has to be 0: 0 * log(...) again. Which "
            "operator counts 0 * log(0) as 0? aten.xlogy.Tensor(grad, other).",
            when=lambda e: e.inputs[2] == 0.0 and _slope_off("self")(e),
        ),
        Hint("The formula of other is grad * self / other, with nothing masked.",
             when=_slope_off("other")),
        "The comment above says for which x and y a value was chosen, and which value.",
    ),
    must_fail=(
        "exchanges the two",
        "forgets grad",
        "masks nothing",
        "masks wherever self is 0",
        "multiplies grad by log(other)",
        "masks the slope of other",
    ),
)  # fmt: skip


# --- sample_inputs


def _in_turn(listed: Sequence[str], largest: int) -> Any:
    """A case maker that takes each in turn, as `size` grows from 0 to `largest`."""

    def case(rng: Rng, size: int) -> Case:
        place = math.ceil(size * len(listed) / (largest + 1))
        return Case((listed[min(place, len(listed) - 1)],))

    return case


def _defects(family: str) -> Any:
    listed = [name for name, one in planted.DEFECTS.items() if one.family == family]
    return Stage(family, case=_in_turn(listed, len(planted.DEFECTS)), cases=len(listed))


def _judge_samples(case: Case, got: Any) -> str | None:
    right = "nothing found" if case.inputs == ("none",) else "found"
    if not isinstance(got, Found):
        return "the samples are a list of pairs"
    return None if got.said == right else f"on this copy, by the samples: {right}"


sample_inputs = Exercise(
    id="contribution.sample_inputs",
    case=_in_turn(["none", *planted.DEFECTS], len(planted.DEFECTS)),
    judge=_judge_samples,
    drive=handed_out(lambda answer, defect: tried_on(answer(), defect)),
    show=lambda defect: f"a copy with this defect: {defect}",
    picture=missed,
    cases=1 + len(planted.DEFECTS),
    sizes=len(planted.DEFECTS),
    minutes=9,
    stages=(
        *map(_defects, planted.FAMILIES),
        Stage("all"),
    ),
    hints=(
        Hint("Return a list: its samples are counted.",
             when=lambda e: e.kind == "raised" and "len()" in e.got),
        Hint("Fewer samples: one for every rule is enough.",
             when=lambda e: "at most" in e.value.said),
        Hint(
            "The two tensors of this sample do not broadcast to each other, or xlogy does not "
            "take them.",
            when=lambda e: "refuses" in e.value.said,
        ),
        Hint("special[:, None] against special[None] meets every number with every other.",
             stage="numbers"),
        Hint("One sample for each dtype, with x and y both of it.", stage="dtypes"),
        Hint("x.t() is transposed, x[:, ::2] has gaps. Once for x, once for y.", stage="layouts"),
        Hint("x[:1], x[:, :1] and x[0] all broadcast to x. Once for x, once for y.",
             stage="broadcasting"),
        Hint("x[:0] has no rows, x[:, :0] no columns.", stage="empty"),
        "One sample per rule is better than many of one kind.",
    ),
    must_fail=(
        "random shapes only",
        "forty copies of one shape",
        "samples that PyTorch refuses",
        "hundreds of samples",
        "one dtype only",
        "no empty axis",
        "relies on luck",
    ),
)  # fmt: skip


# --- review_the_change


def _patch(name: str) -> Stage:
    return Stage(name, case=_in_turn([name], len(PATCHES) - 1), cases=1)


@handed_out
def _drive_review(answer: Any, name: str) -> Any:
    said = answer(name)
    return "accepted" if said is None else reviewed(said, PATCHES[name])


def _judge_review(case: Case, got: Any) -> str | None:
    patch = PATCHES[case.inputs[0]]
    if got == "accepted" or not patch.wrong:
        right = got == "accepted" and not patch.wrong
        return None if right else "a patch is accepted when it does what its docstring says"
    if not isinstance(got, Reviewed):
        return "the line and the test, as a pair"
    if got.on_the_patch != "red":
        return "the test is red on the patch"
    if got.on_two_repairs != ("green", "green"):
        return "the test is green on a repaired function"
    return None if got.line in patch.wrong else "the line is one that a repair changes"


review_the_change = Exercise(
    id="contribution.review_the_change",
    case=_in_turn(list(PATCHES), len(PATCHES) - 1),
    judge=_judge_review,
    drive=_drive_review,
    show=lambda name: name,
    picture=beside_the_fault,
    cases=len(PATCHES),
    sizes=len(PATCHES) - 1,
    minutes=15,
    stages=(
        *map(_patch, list(PATCHES)[:-1]),
        Stage("all five"),
    ),
    hints=(
        Hint("A patch that does all it says is accepted: None. What does your test ask that the "
             "docstring does not say?", when=lambda e: e.inputs == ("backwards",)),
        Hint("Your test is red on a right function, too: what does it ask that the docstring does "
             "not say?", when=lambda e: "repaired" in e.property),
        Hint("The test is right. Which line has to change, so that it is green?",
             when=lambda e: "the line is" in e.property),
        Hint("x[:, 0] is a view. What does += write to? Look at x after the call.",
             stage="row_sums"),
        Hint("A comparison with nan is False, whichever way round. So a nan behind another "
             "number is lost.", stage="largest"),
        Hint("It is right for contiguous matrices. Give it x.t(), or x[:, :2].", stage="diagonal"),
        Hint("lab.empty makes float32. Give it another dtype, and look at the result's.",
             stage="halves"),
        "Give the function an input that the author did not think of, and one assertion.",
    ),
    must_fail=(
        "rejects everything",
        "accepts everything",
        "a test that fails on both",
        "a test of style only",
        "names another line",
        "tests only what the author tested",
        "tests a private name",
        CATCHES,
    ),
)  # fmt: skip

EXERCISES = (looks, numbers, formulas, sample_inputs, review_the_change)
