"""Right and wrong answers to the exercises on bringing an operator in, and on reviewing others."""

import contextlib

import numpy as np
import pytest
import torch

import labkit as lab
from labkit.course.checks import failing_cases, picture_of
from labkit.course.exercises._xlogy import FORMULAS
from tests.course.answers import CATCHES, Answers, first_hint

answers = Answers("contribution")
inf, nan = float("inf"), float("nan")
SPECIAL = torch.tensor([0.0, 1.0, -1.0, inf, nan])
X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
DTYPES = (
    torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64,
)  # fmt: skip


# --- looks


@answers.right("looks")
def looks(self, other):
    dtype = lab.result_type(self, other)
    shape = lab.broadcast_shapes(self.shape, other.shape)
    return shape, dtype if dtype.is_floating_point else lab.float32


@answers.wrong("looks", "keeps whole numbers")
def keeps_whole(self, other):
    return lab.broadcast_shapes(self.shape, other.shape), lab.result_type(self, other)


@answers.wrong("looks", "takes the shape of self")
def own_shape(self, other):
    return self.shape, looks(self, other)[1]


@answers.wrong("looks", "takes the dtype of self")
def own_dtype(self, other):
    dtype = self.dtype if self.dtype.is_floating_point else lab.float32
    return looks(self, other)[0], dtype


@answers.wrong("looks", "always float32")
def float32(self, other):
    return looks(self, other)[0], lab.float32


@answers.wrong("looks", "gives float64 for whole numbers")
def float64(self, other):
    shape, dtype = keeps_whole(self, other)
    return shape, dtype if dtype.is_floating_point else lab.float64


# --- numbers


@answers.right("numbers")
def numbers(x, y):
    return np.where(np.isnan(y), nan, np.where(x == 0, 0, x * np.log(y)))


@answers.wrong("numbers", "computes x * log(y) everywhere")
def everywhere(x, y):
    return x * np.log(y)


@answers.wrong("numbers", "gives 0 for y = nan")
def zero_for_nan(x, y):
    return np.where(x == 0, 0, x * np.log(y))


@answers.wrong("numbers", "gives 0 where y is not positive")
def zero_for_negative(x, y):
    return np.where(y <= 0, 0, numbers(x, y))


@answers.wrong("numbers", "writes into x")
def writes(x, y):
    right = numbers(x, y)
    x *= 2
    return right


@answers.wrong("numbers", "looks at the first number alone")
def first_alone(x, y):
    return 0 * numbers(x, y) if (np.ravel(x) == 0)[:1].any() else x * np.log(y)


@answers.right("numbers")
def by_log1p(x, y):
    near = np.abs(y - 1) < 0.1
    log = np.where(near, np.log1p(np.where(near, y - 1, 0)), np.log(y))
    return np.where((x == 0) & ~np.isnan(y), 0, x * log)


@answers.wrong("numbers", "takes a tiny number for 0")
def tiny(x, y):
    return np.where((np.abs(x) < 1e-12) & ~np.isnan(y), 0, x * np.log(y))


@answers.wrong("numbers", "loses a tiny y")
def from_one(x, y):
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log1p(y - 1))


@answers.wrong("numbers", "gives another dtype")
def always_float64(x, y):
    return numbers(x, y).astype(np.float64)


@answers.wrong("numbers", "gives a list")
def as_a_list(x, y):
    return numbers(x, y).tolist()


@answers.wrong("numbers", "gives back x")
def x_itself(x, y):
    right = numbers(x, y)
    return x if np.array_equal(right, x, equal_nan=True) else right


# --- formulas


@answers.right("formulas")
def formulas():
    return dict(FORMULAS)


@answers.right("formulas")
def by_masks():
    zero = "logical_or(eq(grad, 0), logical_and(eq(self, 0), le(other, 0)))"
    unless = f"logical_and({zero}, eq(other, other))"
    return {"self": f"zero_where({unless}, grad * log(other))", "other": "grad * self / other"}


@answers.wrong("formulas", "exchanges the two")
def exchanged():
    return {"self": FORMULAS["other"], "other": FORMULAS["self"]}


@answers.wrong("formulas", "forgets grad")
def no_grad():
    return {"self": "log(other)", "other": "self / other"}


@answers.wrong("formulas", "masks nothing")
def no_mask():
    return {"self": "grad * log(other)", "other": "grad * self / other"}


@answers.wrong("formulas", "masks wherever self is 0")
def masks_all():
    return {**FORMULAS, "self": "zero_where(eq(self, 0), aten.xlogy.Tensor(grad, other))"}


@answers.wrong("formulas", "multiplies grad by log(other)")
def multiplied():
    mask = "logical_and(eq(self, 0), le(other, 0))"
    return {**FORMULAS, "self": f"zero_where({mask}, grad * log(other))"}


@answers.wrong("formulas", "masks the slope of other")
def masks_other():
    return {**FORMULAS, "other": "zero_where(eq(self, 0), grad * self / other)"}


# --- sample_inputs


@answers.right("sample_inputs")
def sample_inputs():
    pairs = [(SPECIAL[:, None], SPECIAL[None])]
    pairs += [(X.to(dtype), X.to(dtype)) for dtype in DTYPES]
    for view in (X.t(), X[:, ::2]):
        pairs += [(view, view.contiguous()), (view.contiguous(), view)]
    for small in (X[:1], X[:, :1], X[0]):
        pairs += [(X, small), (small, X)]
    return [*pairs, (X[:0], X[:0]), (X[:, :0], X[:, :0])]


@answers.wrong("sample_inputs", "random shapes only")
def random_shapes():
    made = torch.Generator().manual_seed(1)
    shapes = [torch.randint(1, 4, (2,), generator=made).tolist() for _ in range(40)]
    return [(torch.rand(shape), torch.rand(shape)) for shape in shapes]


@answers.wrong("sample_inputs", "forty copies of one shape")
def copies():
    return [(X, X)] * 40


@answers.wrong("sample_inputs", "samples that PyTorch refuses")
def refused():
    return [(X, X.t()), *sample_inputs()]


@answers.wrong("sample_inputs", "hundreds of samples")
def hundreds():
    return sample_inputs() * 20


@answers.wrong("sample_inputs", "one dtype only")
def one_dtype():
    return [pair for pair in sample_inputs() if pair[0].dtype == torch.float32]


@answers.wrong("sample_inputs", "no empty axis")
def never_empty():
    return [pair for pair in sample_inputs() if pair[0].numel()]


@answers.wrong("sample_inputs", "relies on luck")
def lucky():
    drawn = SPECIAL[torch.randint(5, (2, 6))]
    return [tuple(drawn), *sample_inputs()[1:]]


# --- review_the_change


def row_sums_test(op):
    x = lab.tensor([[1.0, 2.0]])
    op(x)
    assert x.tolist() == [[1.0, 2.0]]


def largest_test(op):
    assert op(lab.tensor([1.0, nan])).isnan().item()


def diagonal_test(op):
    assert op(lab.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).t()).tolist() == [1.0, 5.0]


def halves_test(op):
    assert op(lab.ones(2, dtype=lab.float64)).dtype == lab.float64


REVIEWS = {
    "row_sums": ("total = x[:, 0]", row_sums_test),
    "largest": ("if number > best:", largest_test),
    "diagonal": ("    step = x.shape[1] + 1", diagonal_test),
    "halves": ("made = lab.empty(x.shape)", halves_test),
}


@answers.right("review_the_change")
def reviewed(name):
    return REVIEWS.get(name)


@answers.right("review_the_change")
def other_line(name):
    return ("total += x[:, column]", row_sums_test) if name == "row_sums" else REVIEWS.get(name)


def without_columns(op):
    assert op(lab.empty((2, 0))).tolist() == [0.0, 0.0]


def beyond_a_byte(op):
    x = lab.tensor([[200, 100], [1, 2]], dtype=lab.uint8)
    assert op(x).tolist() == [300, 3]


def of_bools(op):
    assert op(lab.tensor([[True, True], [True, False]])).tolist() == [2, 1]


@pytest.mark.parametrize("test", [without_columns, beyond_a_byte, of_bools])
def test_every_defect_of_row_sums_may_be_named(test):
    exercise = answers.exercises["review_the_change"]
    said = {**REVIEWS, "row_sums": ("total = x[:, 0]", test)}.get
    assert not failing_cases(exercise, lambda name: said(name), seed=1)


def fails(op):
    raise AssertionError("no")


@answers.wrong("review_the_change", "rejects everything")
def rejects(name):
    return REVIEWS.get(name, ("return x[order]", fails))


@answers.wrong("review_the_change", "accepts everything")
def accepts(name):
    return None


@answers.wrong("review_the_change", "a test that fails on both")
def fails_on_both(name):
    return (name in REVIEWS and (REVIEWS[name][0], fails)) or None


def has_words(op):
    assert op.__doc__


@answers.wrong("review_the_change", "a test of style only")
def style(name):
    return (name in REVIEWS and (REVIEWS[name][0], has_words)) or None


@answers.wrong("review_the_change", "names another line")
def first_line(name):
    return (name in REVIEWS and ("def " + name, REVIEWS[name][1])) or None


def private(op):
    assert "as_strided" not in op.__code__.co_names
    assert "empty" not in op.__code__.co_names


@answers.wrong("review_the_change", "tests a private name")
def by_name(name):
    return (name in REVIEWS and (REVIEWS[name][0], private)) or None


def plain(op):
    x = lab.tensor([[1.0, 2.0], [3.0, 4.0]])
    op(x)


def caught(test):
    def quiet(op):
        with contextlib.suppress(Exception):
            test(op)

    return quiet


@answers.wrong("review_the_change", CATCHES)
def never_red(name):
    return (name in REVIEWS and (REVIEWS[name][0], caught(REVIEWS[name][1]))) or None


@answers.wrong("review_the_change", "tests only what the author tested")
def as_the_author(name):
    return (name in REVIEWS and (REVIEWS[name][0], plain)) or None


test_answers = answers.tests()


def in_place(x, y):
    product = x * np.log(y)
    product[x == 0] = 0
    product[np.isnan(y)] = nan
    return product


def reviews(name, review):
    return lambda asked: review if asked == name else REVIEWS.get(asked)


def masks_the_other():
    return {**FORMULAS, "other": f"zero_where(le(other, 0), {FORMULAS['other']})"}


def hides_nan():
    mask = "logical_or(eq(grad, 0), logical_and(eq(self, 0), le(other, 0)))"
    return {**FORMULAS, "self": f"zero_where({mask}, grad * log(other))"}


def nan_first(op):
    assert np.isnan(op(lab.tensor([nan, 1.0])).item())


STEP = "step = x.shape[1] + 1"


def lower_rows(op):
    x = lab.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert op(x[1:]).tolist() == [3.0, 6.0]


@pytest.mark.parametrize(
    ("name", "answer", "hint"),
    [
        ("numbers", in_place, "An array without dimensions"),
        ("numbers", always_float64, "x and y may be float32"),
        ("numbers", writes, "x and y belong to the caller"),
        ("numbers", x_itself, "x and y belong to the caller"),
        ("numbers", tiny, "Only 0 itself counts as 0"),
        ("formulas", no_mask, "Where self is 0 and other is not positive"),
        ("formulas", masks_the_other, "The formula of other is"),
        ("formulas", multiplied, "grad is 0 here, and the slope"),
        ("formulas", hides_nan, "0 times nan stays nan"),
        ("sample_inputs", lambda: iter(sample_inputs()), "Return a list"),
        ("review_the_change", reviews("row_sums", ("total = x[:, 0]", fails)), "Your test is red"),
        ("review_the_change", reviews("row_sums", ("def row_sums", row_sums_test)), "The test is"),
        ("review_the_change", reviews("row_sums", None), "x[:, 0] is a view"),
        ("review_the_change", rejects, "A patch that does all it says"),
        (
            "review_the_change",
            reviews("largest", ("if number > best:", nan_first)),
            "A comparison with nan is False, whichever way round. So a nan behind",
        ),
        (
            "review_the_change",
            reviews("diagonal", (STEP, lower_rows)),
            "It is right for contiguous matrices. Give it x.t(), or x[:, :2]",
        ),
    ],
)
def test_a_hint_fits_what_was_seen(name, answer, hint):
    assert first_hint(answers.exercises[name], answer).startswith(hint)


def drawn(name, answer):
    """The picture of the first case that this answer fails."""
    exercise = answers.exercises[name]
    return picture_of(exercise, failing_cases(exercise, answer, seed=3, search=False)[0])


@pytest.mark.parametrize(
    ("name", "answer", "seen"),
    [
        ("looks", lambda self, other: (self.shape, other.dtype), "✗ meta"),
        ("numbers", tiny, "✗ numbers"),
        ("formulas", lambda: {"self": "grad", "other": "grad"}, "✗ gradient"),
        ("sample_inputs", one_dtype, "✗ x and y are torch.float64 | no sample"),
        ("sample_inputs", one_dtype, "✓ x and y are torch.float32 | sample 0"),
        ("review_the_change", reviews("diagonal", ("step = x.shape[1] + 1", plain)), "| no"),
        ("review_the_change", as_the_author, "x is [[3.0, 2.0], [7.0, 4.0]] now"),
        ("review_the_change", first_line, "your test is red on the patch, green and green"),
    ],
)
def test_a_failing_case_is_drawn_as_the_reviewer_sees_it(name, answer, seen):
    picture = drawn(name, answer)
    assert seen in repr(picture)
    assert 'aria-label="wrong"' in picture._repr_html_() or "| yes" in repr(picture)
