import itertools
import math
import random

import numpy as np
import pytest
import torch

from labkit.course.exercises import find
from labkit.course.exercises._never_right import TOO_SLOW
from tests.course.answers import Answers, first_hint

answers = Answers("strides_views_transfers")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"
SQUARE = "is right only for square, even or contiguous shapes"
SORTED = "sorted-stride test only (misses interleaved overlap)"
CHANGES = "returns the right value but changes one of its inputs"

# --- windows_that_fit, apart


@answers.right("windows_that_fit")
def windows(length, window, step):
    return max(0, (length - window) // step + 1)


@answers.right("windows_that_fit")
def windows_counted(length, window, step):
    return len(range(0, length - window + 1, step))


@answers.wrong("windows_that_fit", "forgets the window at place 0")
def steps_only(length, window, step):
    return max(0, (length - window) // step)


@answers.wrong("windows_that_fit", "lets the last window hang over the end")
def begins_inside(length, window, step):
    return len(range(0, length, step))


@answers.wrong("windows_that_fit", "lets the last window hang over the end")
def hangs_over(length, window, step):
    return begins_inside(length, window, step) if window <= length else 0


@answers.wrong("windows_that_fit", "is negative where none fits")
def negative(length, window, step):
    return (length - window) // step + 1


@answers.wrong("windows_that_fit", "ignores the step")
def every_place(length, window, step):
    return max(0, length - window + 1)


def is_apart(
    sizes, strides, *, order=sorted, ones=False, equal=False, add=True, less=1, start=0
):  # fmt: skip
    reach = start
    for stride, size in order(zip(strides, sizes, strict=True)):
        if size == 1 and not ones:
            continue
        if stride < reach or (stride == reach and not equal):
            return False
        reach = (max(reach, 0) if add else 0) + (size - less) * stride
    return True


def with_reach(**options):
    return lambda sizes, strides: is_apart(sizes, strides, **options)


answers.right("apart")(is_apart)
for why, options in [
    ("keeps the dimensions in their own order", {"order": list}),
    ("keeps the dimensions in their own order", {"order": lambda pairs: list(pairs)[::-1]}),
    ("asks dimensions of size 1 for their stride", {"ones": True}),
    ("lets a stride be equal to what the smaller ones reach", {"equal": True}),
    ("looks at the neighbour alone", {"add": False}),
    ("takes size * stride for the reach", {"less": 0}),
    ("lets the smallest stride be 0", {"start": -1}),
]:
    answers.wrong("apart", why)(lambda *layout, options=options: is_apart(*layout, **options))


@answers.wrong("apart", "says whether two elements meet")
def exact(sizes, strides):
    return not guard(sizes, strides, 0, 0)[1]


def test_what_is_apart_never_meets_and_some_that_is_not_apart_does_not_either():
    exercise = find("strides_views_transfers.apart")
    cases = [exercise.make(5, n, n * 9 // 300).inputs for n in range(300)]
    meets = {case: guard(*case, 0, 0)[1] for case in cases}
    found = {(exercise.expected(*case), meets[case]) for case in cases}
    assert found == {(True, False), (False, False), (False, True)}


# --- as_strided_guard


def guard(
    sizes, strides, offset, length, *, begin=True, last=1, empty=True, ones=True, exact=True,
    counts=True,
):  # fmt: skip
    if empty and 0 in sizes:
        return True, False
    reach = sum((n - last) * s for n, s in zip(sizes, strides, strict=True))
    inside = (offset if begin else 0) + reach < length
    axes = sorted((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1 or not ones)
    below = 0
    for stride, size in axes:
        if stride <= below:
            break
        below += (size - 1) * stride
    else:
        return inside, False
    if not exact or (counts and math.prod(n for _, n in axes) > reach + 1):
        return inside, True
    places = np.zeros(1, dtype=np.int64)
    for stride, size in axes:
        places = (places[:, None] + np.arange(size) * stride).ravel()
    return inside, len(np.unique(places)) < len(places)


def with_options(**options):
    return lambda *inputs: guard(*inputs, **options)


answers.right("as_strided_guard")(with_options())
for why, options in [
    ("ignores offset", {"begin": False}),
    ("multiplies sizes by strides without minus one", {"last": 0}),
    ("zero-size reported out of bounds", {"empty": False}),
    (SORTED, {"exact": False}),
]:
    answers.wrong("as_strided_guard", why)(with_options(**options))


@answers.wrong("as_strided_guard", "any stride 0 is overlap even for size 1")
def every_zero_overlaps(sizes, strides, offset, length):
    inside, overlap = guard(sizes, strides, offset, length)
    return inside, overlap or (0 in strides and 0 not in sizes)


@answers.wrong("as_strided_guard", SORTED)
def only_stride_zero(sizes, strides, offset, length):
    inside, _ = guard(sizes, strides, offset, length)
    return inside, 0 not in sizes and any(
        s == 0 and n > 1 for n, s in zip(sizes, strides, strict=True)
    )


@answers.wrong("as_strided_guard", LITERAL)
def example(sizes, strides, offset, length):
    return True, True


@answers.wrong("as_strided_guard", TOO_SLOW)
def enumerates_everything(sizes, strides, offset, length):
    inside, _ = guard(sizes, strides, offset, length, exact=False)
    seen = set()
    for index in itertools.product(*map(range, sizes)):
        place = sum(i * s for i, s in zip(index, strides, strict=True))
        if place in seen:
            return inside, True
        seen.add(place)
    return inside, False


@answers.wrong("as_strided_guard", TOO_SLOW)
def compares_pairs(sizes, strides, offset, length):
    inside, overlap = guard(sizes, strides, offset, length, exact=False)
    if not overlap or math.prod(sizes) > 10**6:
        return inside, overlap
    ranges = map(range, sizes)
    indices = itertools.product(*ranges)
    places = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in indices]
    return inside, any(a == b for a, b in itertools.combinations(places, 2))


def test_the_oracle_equals_counting_every_place():
    exercise, draw = find("strides_views_transfers.as_strided_guard"), random.Random(1)
    for _ in range(3000):
        rank = draw.randint(0, 4)
        sizes = tuple(draw.randint(0, 4) for _ in range(rank))
        strides = tuple(draw.randint(0, 8) for _ in range(rank))
        offset, length = draw.randint(0, 5), draw.randint(0, 30)
        places = [
            offset + sum(i * s for i, s in zip(index, strides, strict=True))
            for index in itertools.product(*map(range, sizes))
        ]
        right = all(p < length for p in places), len(set(places)) < len(places)
        assert exercise.expected(sizes, strides, offset, length) == right


def test_both_answers_are_asked_for_both_ways():
    exercise = find("strides_views_transfers.as_strided_guard")
    cases = [exercise.make(3, n, n * 9 // 3000).inputs for n in range(3000)]
    rights = [exercise.expected(*inputs) for inputs in cases]
    for pair in itertools.product((True, False), repeat=2):
        assert rights.count(pair) > 100
    assert sum(math.prod(inputs[0]) > 10**6 for inputs in cases) > 30


# --- sliding_windows


def views(image, window, step, dilation, *, strides=None):
    extent = dilation * (window - 1) + 1
    if extent > min(image.shape):
        raise ValueError(f"a window over {extent} places does not fit into {tuple(image.shape)}")
    rows, columns = ((n - extent) // step + 1 for n in image.shape)
    sh, sw = strides(image) if strides else image.stride()
    return image.as_strided(
        (rows, columns, window, window), (step * sh, step * sw, dilation * sh, dilation * sw)
    )


answers.right("sliding_windows")(lambda *inputs: views(*inputs))


@answers.right("sliding_windows")
def by_unfold(image, window, step, dilation):
    extent = dilation * (window - 1) + 1
    if extent > min(image.shape):
        raise ValueError(f"{extent} places do not fit")
    return image.unfold(0, extent, step).unfold(1, extent, step)[..., ::dilation, ::dilation]


@answers.wrong("sliding_windows", "unfold then clone")
def clones(*inputs):
    return views(*inputs).clone()


@answers.wrong("sliding_windows", "ignores dilation")
def one_after_the_other(image, window, step, dilation):
    return views(image, window, step, 1)


@answers.wrong("sliding_windows", "ignores dilation")
def dilates_the_extent_only(image, window, step, dilation):
    sh, sw = image.stride()
    right = views(image, window, step, dilation)
    return right.as_strided(right.shape, (step * sh, step * sw, sh, sw))


@answers.wrong("sliding_windows", "leaves a gap behind the last number of a window")
def reaches_too_far(image, window, step, dilation):
    rows, columns = ((n - window * dilation) // step + 1 for n in image.shape)
    if min(rows, columns) < 1:
        raise ValueError(f"no window of {window * dilation} places fits")
    right = views(image, window, step, dilation)
    return right[:rows, :columns]


@answers.wrong("sliding_windows", "wrong for non-contiguous input")
def takes_rows_for_dense(*inputs):
    return views(*inputs, strides=lambda image: (image.size(1), 1))


@answers.wrong("sliding_windows", "wrong for non-contiguous input")
def makes_it_contiguous(image, *numbers):
    return views(image.contiguous(), *numbers)


@answers.wrong("sliding_windows", "wrong for non-contiguous input")
def forgets_the_offset(*inputs):
    right = views(*inputs)
    return right.as_strided(right.shape, right.stride(), 0)


@answers.wrong("sliding_windows", "transposed window axes")
def transposed(*inputs):
    return views(*inputs).transpose(2, 3)


@answers.wrong("sliding_windows", "transposed window axes")
def windows_first(*inputs):
    return views(*inputs).permute(2, 3, 0, 1)


@answers.wrong("sliding_windows", CHANGES)
def adds_and_forgets(image, *numbers):
    image.add_(1)
    return views(image, *numbers)


@answers.wrong("sliding_windows", SQUARE)
def as_many_columns_as_rows(*inputs):
    right = views(*inputs)
    rows = right.size(0)
    return right.as_strided((rows, rows, *right.shape[2:]), right.stride(), 0)


@answers.wrong("sliding_windows", FIRST, make=True)
def remembers_the_first():
    kept = []

    def answer(*inputs):
        kept.append(views(*inputs))
        return kept[0]

    return answer


def test_the_image_of_the_statement():
    exercise = find("strides_views_transfers.sliding_windows")
    image = torch.arange(12).reshape(3, 4)
    right = exercise.expected(image, 2, 1, 2)["windows"]
    assert right.tolist() == [[[[0, 2], [8, 10]], [[1, 3], [9, 11]]]]


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("windows_that_fit", every_place, "at every place"),
        ("windows_that_fit", begins_inside, "not one fits"),
        ("apart", exact, "settles nothing"),
        ("apart", with_reach(start=-1), "A stride of 0"),
        ("apart", with_reach(less=0), "not n * stride"),
        ("as_strided_guard", only_stride_zero, "do meet"),
        ("as_strided_guard", with_options(exact=False), "interleave"),
        ("sliding_windows", forgets_the_offset, "image.storage_offset()"),
        ("sliding_windows", reaches_too_far, "number of windows"),
        ("sliding_windows", dilates_the_extent_only, "one step is dilation rows"),
    ],
)
def test_the_first_hint_fits_the_wrong_answer(name, answer, words):
    assert words in first_hint(find(f"strides_views_transfers.{name}"), answer)


@pytest.mark.parametrize("seed", [5, 7, 8, 9])
def test_a_window_that_hangs_over_is_told_of_the_end(seed):
    hint = first_hint(find("strides_views_transfers.windows_that_fit"), hangs_over, seed)
    assert "inside" in hint


test_answers = answers.tests()
