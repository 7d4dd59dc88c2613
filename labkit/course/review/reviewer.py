"""A reviewer that runs: PyTorch's questions to a new operator, and which piece fails them, and why.

Each question is one that PyTorch's own tests ask of every operator. Here it is asked of labkit's
operator beside the installed PyTorch's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import labkit as lab
from labkit.conformance.autograd.lockstep import twin_of
from labkit.conformance.autograd.opinfo import tensor_difference
from labkit.course.review import planted
from labkit.course.review.change import Change, Pair, parsed
from labkit.course.review.rows import SIGNS, Rows

SPECIAL = (-float("inf"), -1.0, 0.0, 1e-300, 0.5, 3.0, float("inf"), float("nan"))


class Missing(Exception):
    """The change has not got the piece that a question is about."""


@dataclass(frozen=True)
class Finding:
    """The answer to one question: what is asked, by which test of PyTorch's, and what was found."""

    piece: str
    question: str
    asked_by: str
    state: str
    why: str


@dataclass(frozen=True)
class Review:
    """All findings about a change, in the order in which its pieces are written."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def accepted(self) -> bool:
        """Every question has its answer, and it is the right one."""
        return all(finding.state == "done" for finding in self.findings)

    def __getitem__(self, piece: str) -> Finding:
        return next(finding for finding in self.findings if finding.piece == piece)

    def __repr__(self) -> str:
        lines = [f"review of {self.name}"]
        for each in self.findings:
            lines.append(f"  {SIGNS[each.state]} {each.piece:9} {each.question}  [{each.why}]")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        heads = ("piece", "question", "found", "PyTorch asks it in")
        rows = [
            (one.state, one.piece, one.question, one.why, one.asked_by) for one in self.findings
        ]
        return Rows(f"review of {self.name}", heads, rows)._repr_html_()


def review(change: Change) -> Review:
    """What the reviewer says about each piece of the change; nothing of it stays in labkit."""
    found = []
    for piece, question, asked_by, judge in QUESTIONS:
        try:
            state, why = "done", judge(change)
        except Missing as gap:
            state, why = "missing", str(gap)
        except NotImplementedError as error:
            state, why = "missing", str(error) or f"no {piece} yet"
        except AssertionError as error:
            state, why = "wrong", str(error)
        except Exception as error:
            state, why = "wrong", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        found.append(Finding(piece, question, asked_by, state, why))
    return Review(change.name, tuple(found))


def pairs() -> Iterator[Pair]:
    """Special numbers against each other; then layouts, shapes and dtypes."""
    special = torch.tensor(SPECIAL, dtype=torch.float64)
    yield torch.broadcast_tensors(special[:, None], special[None])
    plain = torch.tensor([[0.5, 2.0, 3.0], [4.0, 0.0, 6.0]], dtype=torch.float64)
    yield plain.t(), plain.t().contiguous()
    yield plain[:, ::2], plain[:, :2]
    yield plain[:, :1], plain
    yield plain, plain[0]
    yield plain, torch.tensor(3.0, dtype=torch.float64)
    yield plain[:0], plain[:0]
    yield plain.float(), plain
    yield plain.float(), plain.float()
    yield plain.long(), plain.float()
    yield plain.long(), plain.int()
    yield plain > 1, plain.long()


def _present(change: Change, *pieces: str) -> None:
    if gaps := [piece for piece in pieces if not getattr(change, piece)]:
        raise Missing(f"waits for {' and '.join(gaps)}")


def _schema(change: Change) -> str:
    ours = parsed(change.schema)
    theirs = str(change.theirs._schema)
    assert str(ours) == theirs, f"PyTorch has {theirs.removeprefix('aten::')}"
    return "word for word PyTorch's"


def _meta(change: Change) -> str:
    _present(change, "looks")
    assert change.looks is not None
    count = 0
    for x, y in pairs():
        right = change.theirs(x.to("meta"), y.to("meta"))
        shape, dtype = change.looks(twin_of(x), twin_of(y))
        got = tuple(shape), str(dtype).rpartition(".")[2]
        wanted = tuple(right.shape), str(right.dtype).rpartition(".")[2]
        assert got == wanted, f"{_described(x, y)}: PyTorch says {wanted}, yours {got}"
        count += 1
    return f"{count} results look as PyTorch's do"


def _numbers(change: Change) -> str:
    _present(change, "looks", "numbers")
    count = 0
    with change.in_labkit() as operator:
        for x, y in pairs():
            right, got = change.theirs(x, y), operator(twin_of(x), twin_of(y))
            assert not tensor_difference(right, got), _first_wrong(x, y, right, got)
            count += right.numel()
    return f"{count} numbers equal PyTorch's"


def _writes(change: Change) -> str:
    _present(change, "looks", "numbers")
    with change.in_labkit() as operator:
        for x, y in pairs():
            given = twin_of(x), twin_of(y)
            result = operator(*given)
            for name, before, after in zip(("self", "other"), (x, y), given, strict=True):
                assert not tensor_difference(before, after), (
                    f"{_described(x, y)}: {name} was changed, and the schema does not say so"
                )
            owned = {id(each.storage()) for each in given}
            assert id(result.storage()) not in owned, "the result shares memory with an argument"
    return "the arguments stay as they were"


def _gradient(change: Change) -> str:
    _present(change, "looks", "numbers", "formulas")
    count = 0
    with change.in_labkit() as operator:
        for x, y in pairs():
            if not x.dtype == y.dtype == torch.float64:
                continue
            for factor in (1.0, 0.0):
                count += _same_gradients(change, operator, x.clone(), y.clone(), factor)
    return f"{count} slopes equal PyTorch's"


def _same_gradients(change: Change, operator: Any, x: Any, y: Any, factor: float) -> int:
    leaves = x.requires_grad_(), y.requires_grad_()
    twins = [twin_of(leaf) for leaf in leaves]
    result = change.theirs(*leaves)
    grad = torch.full_like(result, factor)
    theirs = torch.autograd.grad(result, leaves, grad)
    ours = lab.autograd.grad([operator(*twins)], twins, [twin_of(grad)])
    for name, right, got in zip(("self", "other"), theirs, ours, strict=True):
        if tensor_difference(right, got):
            where = _first_wrong(x.detach(), y.detach(), right, got)
            raise AssertionError(f"grad {factor:g}, slope of {name}: {where}")
    return sum(each.numel() for each in theirs)


def _samples(change: Change) -> str:
    _present(change, "samples")
    assert change.samples is not None
    samples = list(change.samples())
    said = planted.finds(samples, change.theirs, change.theirs)
    assert said == "nothing found", said
    for defect in planted.DEFECTS.values():
        said = planted.finds(samples, defect.planted_in(change.theirs), change.theirs)
        assert said == "found", f"a copy that is wrong where {defect.name} passes"
    return f"{len(samples)} samples find {len(planted.DEFECTS)} planted defects"


def _docs(change: Change) -> str:
    _present(change, "docs")
    names = [argument.name for argument in parsed(change.schema).arguments]
    missing = [name for name in names if f"`{name}`" not in change.docs]
    assert not missing, f"not a word about {' and '.join(missing)}"
    return "every argument is named"


def _described(x: torch.Tensor, y: torch.Tensor) -> str:
    def side(each: torch.Tensor) -> str:
        return f"{str(each.dtype).rpartition('.')[2]}{list(each.shape)}"

    return f"x {side(x)}, y {side(y)}"


def _first_wrong(x: Any, y: Any, right: torch.Tensor, got: Any) -> str:
    """The first number that differs, with what went in; or what else is the matter."""
    if tuple(right.shape) != tuple(got.shape) or str(right.dtype) != f"torch.{got.dtype.name}":
        return f"{_described(x, y)}: {tensor_difference(right, got)}"
    inputs = [each.expand(right.shape).flatten().tolist() for each in (x, y)]
    mine = torch.tensor(got.tolist(), dtype=right.dtype).flatten()
    off = ~torch.isclose(right.flatten(), mine, equal_nan=True)
    at = int(off.nonzero()[0])
    a, b = (each[at] for each in inputs)
    return f"x = {a}, y = {b}: PyTorch says {right.flatten()[at]:g}, yours {mine[at]:g}"


QUESTIONS: tuple[tuple[str, str, str, Callable[[Change], str]], ...] = (
    ("schema", "Is the entry PyTorch's?", "native_functions.yaml", _schema),
    ("meta", "Are shape and dtype said without numbers?", "test_dispatch_meta_outplace", _meta),
    ("numbers", "Are the numbers right, for any shape and layout?", "test_noncontiguous_samples",
     _numbers),
    ("writes", "Does it leave its arguments alone?", "opcheck: test_schema", _writes),
    ("gradient", "Are the slopes right, at odd numbers too?", "test_fn_grad", _gradient),
    ("samples", "Would its tests see a defect?", "sample_inputs of its OpInfo", _samples),
    ("docs", "Can a user read of every argument?", "_torch_docs.py", _docs),
)  # fmt: skip
"""(piece, question, where PyTorch asks it, judge): a judge returns what it found, or raises."""


def red_row(piece: str, why: str) -> Review:
    """The one row of the review that is about this piece, gone red, and why."""
    question, asked_by = next(row[1:3] for row in QUESTIONS if row[0] == piece)
    return Review("your piece", (Finding(piece, question, asked_by, "wrong", why),))
