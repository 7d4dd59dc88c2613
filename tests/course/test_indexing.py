import math

import numpy as np
import pytest
import torch

from labkit.course.exercise import Case, Evidence, Hint, Raises
from labkit.course.exercises import _numpy_twin
from tests.course.answers import Answers, catches, first_hint

answers = Answers("indexing")
FIRST = "remembers the answer of the first random case and returns it for all later cases"

# --- basic_index


@answers.right("basic_index")
def basic_index(sizes, strides, offset, index, **broken):
    used = sum(item is not None and item is not Ellipsis for item in index)
    if used > len(sizes):
        raise IndexError(f"{used} indices for {len(sizes)} axes")
    rest = list(zip(sizes, strides, strict=True))
    made = []
    for item in index:
        if item is None:
            size, stride = rest[0] if rest else (1, 1)
            made.append((1, size * stride * broken.get("none", 1)))
        elif item is Ellipsis:
            count = broken.get("ellipsis", len(sizes) - used)
            made, rest = made + rest[:count], rest[count:]
        else:
            size, stride = rest.pop(0)
            if isinstance(item, int):
                offset += position(item, size, broken) * stride
                continue
            if item.step is not None and item.step < 1:
                raise ValueError(f"step {item.step}")
            start, stop, step = item.indices(size)
            if broken.get("positive"):
                start = min(max(item.start or 0, 0), size)
            length = max(0, -((start - stop) // (1 if broken.get("length") else step)))
            offset += start * stride
            made.append((length, stride * broken.get("stretched", step)))
    made += [] if broken.get("drops") else rest
    return tuple(size for size, _ in made), tuple(stride for _, stride in made), offset


def position(item, size, broken):
    if not -size <= item < size:
        if not broken.get("clamp"):
            raise IndexError(f"{item} of {size}")
        item = min(max(item, -size), size - 1)
    return item % size if size else 0


def broken(**how):
    return lambda *inputs: basic_index(*inputs, **how)


def packed(sizes, strides, offset, index):
    rows = tuple(math.prod(max(n, 1) for n in sizes[d + 1 :]) for d in range(len(sizes)))
    return basic_index(sizes, rows, offset, index)


for why, answer in [
    ("treats Ellipsis as one colon", broken(ellipsis=1)),
    ("clamps out-of-range integers", broken(clamp=True)),
    ("forgets negative starts", broken(positive=True)),
    ("step changes stride but not size", broken(length=True)),
    ("step changes size but not stride", broken(stretched=1)),
    ("forgets the dimensions without an item", broken(drops=True)),
    ("None gets stride 0", broken(none=0)),
    ("is right only for square, even or contiguous shapes", packed),
    ("catches every exception and returns a default", catches(basic_index, ((), (), 0))),
]:
    answers.wrong("basic_index", why)(answer)


# --- advanced_shape


def is_array(item):
    return isinstance(item, tuple)


def broadcast(shapes):
    result = []
    for back in range(1, max(map(len, shapes)) + 1):
        found = {shape[-back] for shape in shapes if len(shape) >= back} - {1}
        if len(found) > 1:
            raise IndexError(f"{shapes} do not broadcast")
        result.insert(0, found.pop() if found else 1)
    return tuple(result)


def rank(item):
    return len(item[1]) if is_array(item) and item[0] == "mask" else 1


def axes_of(sizes, index, integers_gather, rank=rank):
    """One entry per remaining axis: its length, or None where it is gathered."""
    axes = []
    for item in index:
        size = sizes[0]
        sizes = sizes[rank(item) :]
        if is_array(item):
            axes.append(None)
        elif isinstance(item, slice):
            axes.append(len(range(*item.indices(size))))
        elif integers_gather:
            axes.append(None)
    return [*axes, *sizes]


def placed(axes, gathered, where="as it is"):
    if None not in axes:
        return tuple(axes)
    first = axes.index(None)
    count = axes.count(None)
    adjacent = axes[first : first + count] == [None] * count
    kept = [size for size in axes if size is not None]
    at = first if where == "in place" or (adjacent and where != "first") else 0
    return (*kept[:at], *gathered, *kept[at:])


def answer_shapes(sizes, index, where="as it is", rank=rank, broadcast=broadcast):
    arrays = [item for item in index if is_array(item)]
    shapes = [(item[2],) if item[0] == "mask" else item[1] for item in arrays]
    gathered = broadcast(shapes) if shapes else ()
    return tuple(
        placed(axes_of(sizes, index, bool(arrays) and numpy, rank), gathered, where)
        for numpy in (False, True)
    )


@answers.right("advanced_shape")
def advanced_shape(sizes, index):
    return answer_shapes(sizes, index)


@answers.wrong("advanced_shape", "always puts gathered axes first")
def gathered_first(sizes, index):
    return answer_shapes(sizes, index, "first")


@answers.wrong("advanced_shape", "always leaves them in place")
def gathered_in_place(sizes, index):
    return answer_shapes(sizes, index, "in place")


@answers.wrong("advanced_shape", "treats a mask as one axis whatever its rank")
def mask_is_one_axis(sizes, index):
    return answer_shapes(sizes, index, rank=lambda item: 1)


@answers.wrong("advanced_shape", "ignores broadcasting between index arrays")
def longest_list(sizes, index):
    return answer_shapes(sizes, index, broadcast=lambda shapes: max(shapes, key=len))


@answers.wrong("advanced_shape", "ignores broadcasting between index arrays")
def never_refuses(sizes, index):
    try:
        return advanced_shape(sizes, index)
    except IndexError:
        return (), ()


@answers.wrong("advanced_shape", "returns the literal answer of the example in the statement")
def the_example(sizes, index):
    return (3, 2), (2, 3)


@answers.wrong("advanced_shape", "always leaves them in place")
def numpy_is_like_torch(sizes, index):
    torch_shape, _ = advanced_shape(sizes, index)
    return torch_shape, torch_shape


# --- causal_mask_adapter


def to_blocked(mask, form):
    if form == "adds":
        return mask == -math.inf
    return mask if form == "blocks" else ~mask


def additive(blocked, dtype):
    return torch.zeros(blocked.shape, dtype=dtype).masked_fill(blocked, -math.inf)


def full_rows(blocked):
    return blocked.all(-1).nonzero().tolist()


@answers.right("causal_mask_adapter")
def causal_mask_adapter(mask, form, wanted, dtype, additive=additive, rows=full_rows):
    blocked = to_blocked(mask, form)
    forms = {"blocks": blocked, "allows": ~blocked}
    converted = additive(blocked, dtype) if wanted == "adds" else forms[wanted]
    return converted, rows(blocked)


@answers.right("causal_mask_adapter")
def row_by_row(mask, form, wanted, dtype):
    one = {"blocks": True, "allows": False, "adds": -math.inf}
    blocked = (mask == one[form]).reshape(-1, *mask.shape[-2:]) if mask.numel() else None
    if blocked is None:
        return causal_mask_adapter(mask, form, wanted, dtype)
    rows = [
        (batch, row) if mask.dim() == 3 else (row,)
        for batch in range(len(blocked))
        for row in range(blocked.shape[1])
        if all(blocked[batch, row].tolist())
    ]
    zero = {"blocks": False, "allows": True, "adds": 0.0}[wanted]
    values = [one[wanted] if cell else zero for cell in blocked.flatten().tolist()]
    kind = dtype if wanted == "adds" else torch.bool
    return torch.tensor(values, dtype=kind).reshape(mask.shape), rows


def variant(**changes):
    return lambda *inputs: causal_mask_adapter(*inputs, **changes)


@answers.wrong("causal_mask_adapter", "inverts for both")
def inverts_for_both(mask, form, wanted, dtype):
    read = mask if form == "adds" else ~mask
    return causal_mask_adapter(read, form, wanted, dtype)


def first_of_batch(blocked):
    return full_rows(blocked[0] if blocked.dim() == 3 else blocked)


def mask_of_the_first(mask, form, wanted, dtype):
    first = mask[0].expand(mask.shape) if mask.dim() == 3 else mask
    return causal_mask_adapter(first, form, wanted, dtype)


def lowest(blocked, dtype):
    if dtype in (torch.float32, torch.float64):
        return additive(blocked, dtype)
    return (blocked * torch.finfo(torch.float16).min).to(dtype)


def a_large_number(blocked, dtype):
    return torch.zeros(blocked.shape, dtype=dtype).masked_fill(blocked, -1e9)


for why, answer in [
    ("adds 1 instead of minus infinity", variant(additive=lambda b, dtype: b.to(dtype))),
    ("returns NaN rows silently", variant(rows=lambda blocked: [])),
    ("float mask in the wrong dtype", variant(additive=lambda b, _: additive(b, torch.float32))),
    ("ignores the batch axis", variant(rows=first_of_batch)),
    ("ignores the batch axis", mask_of_the_first),
    (
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        variant(additive=lowest),
    ),
    (
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        variant(additive=a_large_number),
    ),
    (
        "returns NaN or an uninitialised buffer where a value is expected",
        variant(additive=lambda b, dtype: b.to(dtype) * -math.inf),
    ),
    (
        "returns NaN or an uninitialised buffer where a value is expected",
        variant(additive=lambda b, dtype: torch.empty(b.shape, dtype=dtype)),
    ),
]:
    answers.wrong("causal_mask_adapter", why)(answer)


# --- numpy_twin


@answers.right("numpy_twin")
def numpy_twin(expression):
    kind, *rest = expression
    ours, theirs, rule = index_shapes(*rest) if kind == "index" else arithmetic_shapes(*rest)
    if ours == theirs:
        return ("raise alike" if ours is None else "agree"), 0
    return "differ", rule


def index_shapes(sizes, index):
    """The shape in torch, in NumPy (None: raises), and the rule that parts them."""
    if len(index) > len(sizes):
        return None, None, 0
    index = (*index, *[slice(None)] * (len(sizes) - len(index)))
    kept, entry_outside, reverses, place = [], False, False, None
    for part, size in zip(index, sizes, strict=True):
        if isinstance(part, slice):
            if part.step == 0:
                return None, None, 0
            reverses = reverses or (part.step or 1) < 0
            kept.append(len(range(*part.indices(size))))
        elif isinstance(part, int):
            if not -size <= part < size:
                return None, None, 0
        else:
            entry_outside = any(not -size <= entry < size for entry in part)
            place = len(kept)
            kept.append(len(part))
    empty = 0 in kept
    if entry_outside and not empty:
        return None, None, 0
    theirs = None if entry_outside else tuple(kept)
    advanced = [at for at, part in enumerate(index) if not isinstance(part, slice)]
    split = advanced and advanced[-1] - advanced[0] >= len(advanced)
    if theirs and place is not None and split:
        theirs = (kept[place], *kept[:place], *kept[place + 1 :])
    if reverses:
        return None, theirs, 1
    return tuple(kept), theirs, 5 if entry_outside else 2


def arithmetic_shapes(sizes, operator, other, value):
    rank = max(len(sizes), len(other))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in (sizes, other)]
    if any(a != b and 1 not in (a, b) for a, b in zip(*padded, strict=True)):
        return None, None, 0
    shape = tuple(b if a == 1 else a for a, b in zip(*padded, strict=True))
    if 0 not in shape and operator in ("//", "%") and value == 0:
        return None, shape, 3
    if 0 not in shape and operator == "**" and value < 0:
        return shape, None, 4
    return shape, shape, 0


@answers.wrong("numpy_twin", "always agree")
def always_agree(expression):
    return "agree", 0


@answers.wrong("numpy_twin", "complains about a value where there is none")
def looks_at_values_that_are_not_there(expression):
    kind, *rest = expression
    if kind == "index" or 0 not in rest[0] or numpy_twin(expression) != ("agree", 0):
        return numpy_twin(expression)
    _, operator, _, value = rest
    if operator in ("//", "%") and value == 0:
        return "differ", 3
    return ("differ", 4) if operator == "**" and value < 0 else ("agree", 0)


@answers.wrong("numpy_twin", "treats every raise as differ")
def raise_is_differ(expression):
    verdict, rule = numpy_twin(expression)
    return ("differ", 1) if verdict == "raise alike" else (verdict, rule)


@answers.wrong("numpy_twin", "compares values but not shapes")
def compares_values(expression):
    """The same elements in another order of axes pass for the same."""
    verdict, rule = numpy_twin(expression)
    return ("agree", 0) if rule == 2 else (verdict, rule)


@answers.wrong("numpy_twin", "hard-codes the two printed examples")
def hard_codes(expression):
    kind, _, *rest = expression
    if kind == "index":
        for part in rest[0]:
            if isinstance(part, slice) and part.step is not None and part.step < 0:
                return "differ", 1
        if len(rest[0]) == 3 and isinstance(rest[0][0], int) and isinstance(rest[0][2], list):
            return "differ", 2
    return "agree", 0


@answers.wrong("numpy_twin", "returns the literal answer of the example in the statement")
def literal_rule(expression):
    return "differ", 2


@answers.wrong("numpy_twin", FIRST, make=True)
def counts_elements():
    """The rule of the first expression it sees, for ever."""
    seen = []

    def answer(expression):
        seen.append(numpy_twin(expression))
        return seen[0]

    return answer


# --- kind


@answers.right("kind")
def kind(index):
    return "gather" if any(isinstance(item, (bool, list)) for item in index) else "view"


@answers.wrong("kind", "takes a bool for an integer")
def only_lists(index):
    return "gather" if any(isinstance(item, list) for item in index) else "view"


@answers.wrong("kind", "looks at the first item alone")
def first_item(index):
    return kind(index[:1])


@answers.wrong("kind", "takes None for a gather")
def none_gathers(index):
    return "gather" if None in index else kind(index)


@answers.wrong("kind", "overlooks an empty list")
def empty_is_nothing(index):
    return (
        "gather"
        if any(isinstance(item, bool) or item for item in index if isinstance(item, (bool, list)))
        else "view"
    )


test_answers = answers.tests()


@pytest.mark.parametrize("seed", range(3))
def test_the_rules_explain_every_difference_of_the_two_libraries(seed):
    """What numpy_twin calls a rule is one: worked out by hand, it predicts both libraries."""
    exercise = _numpy_twin.numpy_twin
    for number in range(1500):
        (expression,) = exercise.make(seed, number, number % 9).inputs
        assert numpy_twin(expression) == _numpy_twin._compared(expression), expression


def test_numpy_and_torch_part_as_the_notebook_says():
    assert torch.zeros(2, 3, 4)[0, :, [1, 2]].shape == (3, 2)
    assert np.zeros((2, 3, 4))[0, :, [1, 2]].shape == (2, 3)


def test_an_integer_outside_and_a_none_at_the_end_have_their_hints():
    exercise = answers.exercises["basic_index"]
    wrongs = {why: make() for why, make in answers.wrongs["basic_index"]}
    outside = first_hint(exercise, wrongs["clamps out-of-range integers"])
    assert "An integer outside is refused" in outside
    assert "At the end, where none comes" in first_hint(exercise, wrongs["None gets stride 0"])


def test_what_is_left_over_and_an_unstretched_stride_have_their_hints():
    exercise = answers.exercises["basic_index"]
    for seed in (7, 11, 23):
        assert "fewer items" in first_hint(exercise, broken(drops=True), seed)
        assert "multiplies the stride" in first_hint(exercise, broken(stretched=1), seed)


def test_too_many_items_around_an_ellipsis_are_told_of_the_count():
    exercise = answers.exercises["basic_index"]
    case = ((2,), (1,), 0, (slice(None, None, -1), ..., 0))
    right = exercise.right(Case(case))
    seen = Evidence("raised", "", "", "", "raised ValueError", "", 1, case, None, right)
    first = next(hint for hint in exercise.hints if isinstance(hint, Hint) and hint.fits(seen))
    assert "too many is an IndexError" in first.text


def test_a_number_that_its_dtype_does_not_have_has_its_hint():
    exercise = answers.exercises["causal_mask_adapter"]
    for seed in (5, 6, 7):
        hint = first_hint(exercise, variant(additive=a_large_number), seed)
        assert "lowest finite number" in hint


def test_the_picture_draws_the_wrong_view_beside_the_right_one():
    exercise = answers.exercises["basic_index"]
    case = Case(((3, 4), (4, 1), 0, (slice(1, 3),)))
    drawn = exercise.picture(case, ((2, 4), (4, 1), 0), exercise.right(case))
    assert "yours [2, 4] strides [4, 1] offset 0" in repr(drawn)
    assert "right [2, 4] strides [4, 1] offset 4" in repr(drawn)
    alone = exercise.picture(case, ((2, 4), (4, 1), 99), Raises(IndexError))
    assert alone.edited["0"]["offset"] == 99 and "right" not in repr(alone)
