import itertools
import math

import pytest
import torch

from labkit.course.exercise import Case, Raises, Rng
from labkit.course.exercises import find
from tests.course.answers import Answers, first_hint

answers = Answers("broadcasting")
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"
ELSEWHERE = "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"
LITERAL = "returns the literal answer of the example in the statement"
SQUARE = "is right only for square, even or contiguous shapes"

# --- broadcast_shapes


def merge(a, b):
    rank = max(len(a), len(b))
    a, b = ((1,) * (rank - len(shape)) + tuple(shape) for shape in (a, b))
    for dim in reversed(range(rank)):
        if a[dim] != b[dim] and 1 not in (a[dim], b[dim]):
            raise RuntimeError(
                f"The size of tensor a ({a[dim]}) must match the size of tensor b ({b[dim]}) "
                f"at non-singleton dimension {dim}"
            )
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))


def stretched(shape, result):
    padded = (1,) * (len(result) - len(shape)) + tuple(shape)
    return tuple(axis for axis, n in enumerate(result) if n != 1 and padded[axis] == 1)


@answers.right("broadcast_shapes")
def broadcast_shapes(shapes):
    result = ()
    for shape in shapes:
        result = merge(result, shape)
    return result, [stretched(shape, result) for shape in shapes]


@answers.wrong("broadcast_shapes", "aligns from the left")
def aligns_from_the_left(shapes):
    rank = max(map(len, shapes))
    return broadcast_shapes([tuple(shape) + (1,) * (rank - len(shape)) for shape in shapes])


@answers.wrong("broadcast_shapes", "accepts 0 against 3")
def zero_stretches(shapes):
    if not any(0 in shape for shape in shapes):
        return broadcast_shapes(shapes)
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    places = [0 if 0 in sizes else math.inf for sizes in zip(*padded, strict=True)]
    ones = [
        tuple(1 if place == 0 else n for n, place in zip(shape, places, strict=True))
        for shape in padded
    ]
    merged, _ = broadcast_shapes(ones)
    result = tuple(0 if place == 0 else n for n, place in zip(merged, places, strict=True))
    return result, [stretched(shape, result) for shape in shapes]


def with_other_words(change):
    def answer(shapes):
        try:
            return broadcast_shapes(shapes)
        except RuntimeError as error:
            words, dim = str(error).rsplit(" ", 1)
            raise RuntimeError(change(words, int(dim), shapes)) from None

    return answer


for other in [
    lambda words, dim, shapes: f"{words} {dim - max(map(len, shapes))}",
    lambda words, dim, shapes: f"{words} {dim + 1}",
    lambda words, dim, shapes: f"{words.replace(' non-singleton', '')} {dim}",
]:
    answers.wrong("broadcast_shapes", "names the wrong dimension in the error")(
        with_other_words(other)
    )


@answers.wrong("broadcast_shapes", "names the wrong dimension in the error")
def looks_from_the_left(shapes):
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    for end in range(1, rank + 1):
        broadcast_shapes([shape[:end] for shape in padded])
    return broadcast_shapes(shapes)


@answers.wrong("broadcast_shapes", "raises another error than torch")
def with_another_error(shapes):
    try:
        return broadcast_shapes(shapes)
    except RuntimeError as clash:
        raise ValueError(str(clash)) from clash


@answers.wrong("broadcast_shapes", "stride 0 also where sizes match")
def every_one_is_stretched(shapes):
    result, _ = broadcast_shapes(shapes)
    padded = [(1,) * (len(result) - len(shape)) + tuple(shape) for shape in shapes]
    return result, [tuple(a for a, n in enumerate(shape) if n == 1) for shape in padded]


@answers.wrong("broadcast_shapes", "only two shapes")
def only_two(shapes):
    result, axes = broadcast_shapes(shapes[:2])
    return result, axes + [stretched(shape, result) for shape in shapes[2:]]


@answers.wrong("broadcast_shapes", BANNED)
def asks_torch(shapes):
    result = tuple(torch.broadcast_shapes(*shapes))
    return result, [stretched(shape, result) for shape in shapes]


@answers.wrong("broadcast_shapes", BANNED)
def asks_labkit(shapes):
    from labkit.core.strides import broadcast_shapes as rebuilt

    result = rebuilt(*shapes)
    return result, [stretched(shape, result) for shape in shapes]


@answers.wrong("broadcast_shapes", LITERAL)
def example_shapes(shapes):
    return (4, 3, 2), [(), (0, 2)]


def test_three_operands_are_refused_in_the_words_of_an_operator_of_three():
    exercise, refused = find("broadcasting.broadcast_shapes"), 0
    for number in range(400):
        (shapes,) = exercise.case(Rng(number), 6)
        if len(shapes) != 3:
            continue
        right = exercise.expected(shapes)
        try:
            shape = torch.addcmul(*[torch.empty(shape) for shape in shapes]).shape
            assert right[0] == tuple(shape)
        except RuntimeError as error:
            refused += 1
            assert isinstance(right, Raises)
            assert right.text == str(error).splitlines()[0]
    assert refused > 10


# --- output_bytes


def count(
    tree, *, expanded=False, keep=False, granule=512, promoted=True, writes=1, itemsize=None,
    waits=True, empty=False, rounded=False,
):  # fmt: skip
    figures = {"read": 0, "written": 0, "peak": 0}
    live = 0

    def width(tensor):
        return itemsize or tensor.itemsize

    def run(node):
        nonlocal live
        kind, *rest = node
        if kind == "number":
            return rest[0], 0
        if kind == "tensor":
            return torch.empty(rest[0], dtype=getattr(torch, rest[1]), device="meta"), 0
        operands = [run(child) for child in rest]
        values = [value for value, _ in operands]
        result = getattr(torch, kind)(*values)
        if not promoted:
            result = result.to(values[0].dtype)
        for value in values:
            if isinstance(value, torch.Tensor) and (result.numel() or empty):
                figures["read"] += (result if expanded else value).numel() * width(value)
        size = result.numel() * width(result)
        held = -(-size // granule) * granule
        figures["written"] += (held if rounded else size) * writes
        gone = 0 if keep else sum(size for _, size in operands)
        if not waits:
            live -= gone
        live += held
        figures["peak"] = max(figures["peak"], live)
        if waits:
            live -= gone
        return result, held

    run(tree)
    return figures


def with_options(**options):
    return lambda tree: count(tree, **options)


answers.right("output_bytes")(with_options())
for why, options in [
    ("counts inputs at expanded size", {"expanded": True}),
    ("keeps all intermediates alive", {"keep": True}),
    ("keeps all intermediates alive", {"waits": False}),
    ("ignores dtype promotion", {"promoted": False}),
    ("ignores the 512-byte granule", {"granule": 1}),
    ("ignores the 512-byte granule", {"granule": 256}),
    ("rounds what is written", {"rounded": True}),
    ("counts the result once per operand", {"writes": 2}),
    (ELSEWHERE, {"itemsize": 4}),
    ("counts inputs at expanded size", {"empty": True}),
]:
    answers.wrong("output_bytes", why)(with_options(**options))


@answers.wrong("output_bytes", "counts inputs at expanded size")
def every_operand_of_a_comparison_is_bool(tree):
    return {**count(tree), "read": count(tree, itemsize=1)["read"]}


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("output_bytes", with_options(empty=True), "A result here is empty"),
        ("output_bytes", with_options(expanded=True), "stretched cell"),
        ("output_bytes", with_options(granule=1), "no multiple of 512"),
        ("loop_strides", lambda sizes, strides, shape: strides[len(shape)], "with an error"),
        ("output_bytes", with_options(rounded=True), "own bytes"),
        ("loop_strides", lambda sizes, strides, shape: strides, "the missing axes come first"),
        ("loop_strides", lambda *given: missing_last(*given), "own strides come after"),
        ("broadcast_shapes", lambda shapes: with_another_error(shapes), "another error"),
    ],
)
def test_the_first_hint_is_about_the_mistake(name, answer, said):
    assert said in first_hint(find(f"broadcasting.{name}"), answer)


def test_trees_hold_numbers_zero_sizes_and_several_intermediates_at_a_time():
    exercise = find("broadcasting.output_bytes")
    trees = [exercise.make(3, number, 6).inputs[0] for number in range(200)]
    texts = list(map(repr, trees))
    assert sum("number" in text for text in texts) > 30
    assert sum("(0," in text or ", 0," in text or ", 0)" in text for text in texts) > 4
    kept = [count(tree, keep=True)["peak"] > count(tree)["peak"] for tree in trees]
    assert sum(kept) > 60


def test_the_pairwise_difference_of_the_chapter():
    tree = ("add", ("tensor", (1000, 1, 8), "float32"), ("tensor", (1, 9, 8), "float32"))
    assert find("broadcasting.output_bytes").expected(tree) == {
        "read": 32_288,
        "written": 288_000,
        "peak": 288_256,
    }


# --- find_the_missing_axis


def places(axes, result):
    options = [[p for p, (name, _) in enumerate(result) if name == own] for own, _ in axes]
    return list(itertools.product(*options))


def steps(where, rank):
    found, where = [], list(where)
    for here in range(len(where)):
        there = where.index(min(where[here:]))
        if here != there:
            found.append(("transpose", here, there))
            where[here], where[there] = where[there], where[here]
    return found + [("unsqueeze", place) for place in range(rank) if place not in where]


def reaches(operands, result):
    sizes = [set() for _ in result]
    for axes, where in operands:
        for (_, size), place in zip(axes, where, strict=True):
            sizes[place].add(size)
    return all(
        found and (found - {1} or {1}) == {size}
        for found, (_, size) in zip(sizes, result, strict=True)
    )


@answers.right("find_the_missing_axis")
def find_the_missing_axis(a, b, result):
    return [
        (steps(pa, len(result)), steps(pb, len(result)))
        for pa in places(a, result)
        for pb in places(b, result)
        if reaches([(a, pa), (b, pb)], result)
    ]


def negative(a, b, result):
    """The same, with dimensions counted from the end and no axes in front."""
    found = []
    for answer in find_the_missing_axis(a, b, result):
        pair = []
        for axes, moves in zip((a, b), answer, strict=True):
            swaps = [step for step in moves if step[0] == "transpose"]
            added = [step[1] - len(result) for step in moves if step[0] == "unsqueeze"]
            rank = len(axes) + len(added)
            assert rank == len(result)
            swaps = [(kind, i - len(axes), j - len(axes)) for kind, i, j in swaps]
            inside = sorted((at for at in added), reverse=True)
            while inside and len(axes) + len(inside) == -inside[-1]:
                inside.pop()
            pair.append([*swaps, *[("unsqueeze", at) for at in inside]])
        found.append(tuple(pair))
    return found[::-1]


answers.right("find_the_missing_axis")(negative)


def for_each(change):
    """The right answers, with the steps of every operand changed."""

    def answer(a, b, result):
        return [
            (change(a, sa, result), change(b, sb, result))
            for sa, sb in find_the_missing_axis(a, b, result)
        ]

    return answer


def reshapes(axes, moves, result):
    left = [size for _, size in axes]
    sizes = [left.pop(0) if left and left[0] == size else 1 for _, size in result]
    return moves if left else [("reshape", *sizes)]


def by_size(axes, moves, result):
    """Leaves the order of the axes alone where the sizes happen to fit."""
    at, added = 0, []
    for place, (_, size) in enumerate(result):
        if at < len(axes) and axes[at][1] == size:
            at += 1
        else:
            added.append(("unsqueeze", place))
    return added if at == len(axes) else moves


def in_front(axes, moves, result):
    swaps = [step for step in moves if step[0] == "transpose"]
    return [*swaps, *[("unsqueeze", 0)] * (len(moves) - len(swaps))]


def expands(axes, moves, result):
    return [*moves, ("expand", *[size for _, size in result])]


def never_transposes(axes, moves, result):
    return [step for step in moves if step[0] == "unsqueeze"]


for why, change in [
    ("reshapes when sizes happen to match", reshapes),
    ("reshapes when sizes happen to match", by_size),
    ("adds axes only in front", in_front),
    ("uses expand instead of unsqueeze", expands),
    (SQUARE, never_transposes),
]:
    answers.wrong("find_the_missing_axis", why)(for_each(change))


@answers.wrong("find_the_missing_axis", "picks the first of two valid answers")
def the_first(a, b, result):
    return find_the_missing_axis(a, b, result)[:1]


@answers.wrong("find_the_missing_axis", SQUARE)
def both_orders_always(a, b, result):
    """Takes it for granted that the two places of a name have the same size."""
    return [
        (steps(pa, len(result)), steps(pb, len(result)))
        for pa in places(a, result)
        for pb in places(b, result)
        if len({*pa, *pb}) == len(result)
    ]


@answers.wrong("find_the_missing_axis", "picks the first of two valid answers")
def every_answer_twice(a, b, result):
    return find_the_missing_axis(a, b, result) * 2


@answers.wrong("find_the_missing_axis", LITERAL)
def example_steps(a, b, result):
    return [([("unsqueeze", 1)], [("transpose", 0, 1)])]


def test_problems_have_none_one_two_and_four_answers():
    exercise = find("broadcasting.find_the_missing_axis")
    numbers = [len(find_the_missing_axis(*exercise.make(1, n, 8).inputs)) for n in range(300)]
    assert all(numbers.count(number) > 8 for number in (0, 1, 2, 4))


@pytest.mark.parametrize("got", [None, [([],)], [(None, [])], [([("view", 0)], [])], [([0], [])]])
def test_what_is_no_list_of_steps_is_refused_in_words(got):
    exercise = find("broadcasting.find_the_missing_axis")
    case = exercise.make(1, 200, 4)
    assert isinstance(exercise.judge(case, got), str)


# --- the small steps of the chapter


@answers.right("fit")
def fit(m, n):
    if m == n or n == 1:
        return m
    return n if m == 1 else None


def raises_instead(m, n):
    if fit(m, n) is None:
        raise RuntimeError("they do not fit")
    return fit(m, n)


for why, answer in {
    "takes the larger of the two": lambda m, n: max(m, n) if m == n or 1 in (m, n) else None,
    "refuses a 1 beside another size": lambda m, n: m if m == n else None,
    "raises where sizes do not fit": raises_instead,
}.items():
    answers.wrong("fit", why)(answer)


@answers.right("loop_strides")
def loop_strides(sizes, strides, shape):
    new = len(shape) - len(sizes)
    kept = zip(sizes, strides, shape[new:], strict=True)
    return (0,) * new + tuple(stride if size == n else 0 for size, stride, n in kept)


def keeps_strides(sizes, strides, shape):
    return (0,) * (len(shape) - len(sizes)) + tuple(strides)


def fresh_strides(sizes, strides, shape):
    return torch.empty(shape).stride()


def missing_last(sizes, strides, shape):
    new = len(shape) - len(sizes)
    return (*loop_strides(sizes, strides, shape)[new:], *(0,) * new)


for why, answer in {
    "keeps the stride of a stretched axis": keeps_strides,
    "gives new strides as a fresh tensor has them": fresh_strides,
    "puts the missing axes last": missing_last,
    "leaves the missing axes out": lambda sizes, strides, shape: tuple(strides),
    "goes through the axes of the shape from the left": lambda sizes, strides, shape: tuple(
        strides[at] if sizes[at] == n else 0 for at, n in enumerate(shape)
    ),
}.items():
    answers.wrong("loop_strides", why)(answer)


test_answers = answers.tests()


def test_the_picture_aligns_the_shapes_of_a_failing_case():
    exercise = answers.exercises["broadcast_shapes"]
    for shapes, said in {((4, 3), (3,)): "[4, 3]", ((2,), (3,)): "fails at dim -1"}.items():
        drawn = exercise.picture(Case((list(shapes),)), None, None)
        assert "shapes[1] [3]" in repr(drawn) and said in repr(drawn)
