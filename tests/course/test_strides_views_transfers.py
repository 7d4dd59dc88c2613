import itertools
import math
import random

import numpy as np
import pytest
import torch

from labkit import cuda
from labkit.course.exercises import find
from tests.course.answers import Answers

answers = Answers("strides_views_transfers")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"
SLOW = "is right on small cases and exceeds the size limit on large ones"
SLOW += " (quadratic, recursive or waiting for ever)"
SQUARE = "is right only for square, even or contiguous shapes"
SORTED = "sorted-stride test only (misses interleaved overlap)"
CHANGES = "returns the right value but changes one of its inputs"
IN_ORDER = (
    "is right in forward thread and queue order only and fails in a reversed or shuffled order"
)

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


@answers.wrong("as_strided_guard", SLOW)
def enumerates_everything(sizes, strides, offset, length):
    inside, _ = guard(sizes, strides, offset, length, exact=False)
    seen = set()
    for index in itertools.product(*map(range, sizes)):
        place = sum(i * s for i, s in zip(index, strides, strict=True))
        if place in seen:
            return inside, True
        seen.add(place)
    return inside, False


@answers.wrong("as_strided_guard", SLOW)
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


# --- safe_async_copy


def upload(number, copy, use, copy_stream, use_stream):
    arrived, consumed = [cuda.Event(), cuda.Event()], [cuda.Event(), cuda.Event()]
    for batch in range(number):
        buffer = batch % 2
        copy_stream.wait_event(consumed[buffer])
        copy(batch, buffer, copy_stream)
        arrived[buffer].record(copy_stream)
        use_stream.wait_event(arrived[buffer])
        use(batch, buffer, use_stream)
        consumed[buffer].record(use_stream)


answers.right("safe_async_copy")(upload)


@answers.right("safe_async_copy")
def one_ahead(number, copy, use, copy_stream, use_stream):
    """Queues each copy in front of the use of the batch before."""
    copy(0, 0, copy_stream)
    for batch in range(number):
        arrived = copy_stream.record_event()
        if batch + 1 < number:
            copy_stream.wait_stream(use_stream)
            copy(batch + 1, (batch + 1) % 2, copy_stream)
        use_stream.wait_event(arrived)
        use(batch, batch % 2, use_stream)


@answers.wrong("safe_async_copy", "synchronises after each copy (no overlap)")
def synchronizes(number, copy, use, copy_stream, use_stream):
    for batch in range(number):
        copy(batch, batch % 2, copy_stream)
        copy_stream.synchronize()
        use(batch, batch % 2, use_stream)
        use_stream.synchronize()


@answers.wrong("safe_async_copy", "synchronises after each copy (no overlap)")
def streams_take_turns(number, copy, use, copy_stream, use_stream):
    for batch in range(number):
        copy_stream.wait_stream(use_stream)
        copy(batch, batch % 2, copy_stream)
        use_stream.wait_stream(copy_stream)
        use(batch, batch % 2, use_stream)


@answers.wrong("safe_async_copy", "synchronises after each copy (no overlap)")
def one_stream(number, copy, use, copy_stream, use_stream):
    for batch in range(number):
        copy(batch, batch % 2, copy_stream)
        use(batch, batch % 2, copy_stream)


@answers.wrong("safe_async_copy", "waits on the host")
def polls(number, copy, use, copy_stream, use_stream):
    consumed = [cuda.Event(), cuda.Event()]
    for batch in range(number):
        while not consumed[batch % 2].query():
            pass
        copy(batch, batch % 2, copy_stream)
        use_stream.wait_stream(copy_stream)
        use(batch, batch % 2, use_stream)
        consumed[batch % 2].record(use_stream)


@answers.wrong("safe_async_copy", "waits on the host")
def synchronizes_events(number, copy, use, copy_stream, use_stream):
    consumed = [cuda.Event(), cuda.Event()]
    for batch in range(number):
        consumed[batch % 2].synchronize()
        copy(batch, batch % 2, copy_stream)
        use_stream.wait_stream(copy_stream)
        use(batch, batch % 2, use_stream)
        consumed[batch % 2].record(use_stream)


@answers.wrong("safe_async_copy", "waits on the wrong stream")
def copy_stream_waits_for_itself(number, copy, use, copy_stream, use_stream):
    for batch in range(number):
        copy(batch, batch % 2, copy_stream)
        copy_stream.wait_event(copy_stream.record_event())
        use(batch, batch % 2, use_stream)


@answers.wrong("safe_async_copy", "forgets to protect the reused buffer")
def never_consumed(number, copy, use, copy_stream, use_stream):
    for batch in range(number):
        copy(batch, batch % 2, copy_stream)
        use_stream.wait_stream(copy_stream)
        use(batch, batch % 2, use_stream)


@answers.wrong("safe_async_copy", "event recorded before the copy")
def too_early(number, copy, use, copy_stream, use_stream):
    consumed = [cuda.Event(), cuda.Event()]
    for batch in range(number):
        copy_stream.wait_event(consumed[batch % 2])
        arrived = copy_stream.record_event()
        copy(batch, batch % 2, copy_stream)
        use_stream.wait_event(arrived)
        use(batch, batch % 2, use_stream)
        consumed[batch % 2].record(use_stream)


@answers.wrong(
    "safe_async_copy", "is right on the default stream or device and wrong on another one"
)
def records_on_the_current_stream(number, copy, use, copy_stream, use_stream):
    arrived, consumed = [cuda.Event(), cuda.Event()], [cuda.Event(), cuda.Event()]
    for batch in range(number):
        copy_stream.wait_event(consumed[batch % 2])
        copy(batch, batch % 2, copy_stream)
        arrived[batch % 2].record()
        use_stream.wait_event(arrived[batch % 2])
        use(batch, batch % 2, use_stream)
        consumed[batch % 2].record()


@answers.wrong("safe_async_copy", IN_ORDER)
def trusts_the_order(number, copy, use, copy_stream, use_stream):
    for batch in range(number):
        copy(batch, batch % 2, copy_stream)
        use(batch, batch % 2, use_stream)


@answers.wrong("safe_async_copy", FIRST, make=True)
def queues_as_many_as_the_first_time():
    kept = []

    def answer(number, copy, use, copy_stream, use_stream):
        kept.append(number)
        upload(min(kept[0], number), copy, use, copy_stream, use_stream)

    return answer


def test_a_missing_event_gives_wrong_data_in_some_order_and_right_data_in_another():
    exercise = find("strides_views_transfers.safe_async_copy")
    right = []
    for number in range(64):
        case = exercise.make(1, number, 2)
        found = exercise.drive(trusts_the_order, *case.inputs)
        right.append(found["results"] == case.truth["results"])
    assert 0 < sum(right) < 64


def test_a_buffer_or_a_batch_that_is_not_there_is_refused_in_words():
    exercise = find("strides_views_transfers.safe_async_copy")
    inputs = exercise.make(1, 0, 0).inputs
    for wrong in [(99, 0), (0, 2)]:
        with pytest.raises(ValueError, match=r"batch 99|buffers 0 and 1"):
            exercise.drive(lambda n, copy, use, a, b, wrong=wrong: copy(*wrong, a), *inputs)


def test_the_image_of_the_statement():
    exercise = find("strides_views_transfers.sliding_windows")
    image = torch.arange(12).reshape(3, 4)
    right = exercise.expected(image, 2, 1, 2)["windows"]
    assert right.tolist() == [[[[0, 2], [8, 10]], [[1, 3], [9, 11]]]]


test_answers = answers.tests()
