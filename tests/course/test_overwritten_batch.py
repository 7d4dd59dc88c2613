import itertools

import pytest

from labkit import cuda
from labkit.course.exercises import find
from tests.course.answers import Answers, first_hint

answers = Answers("overwritten_batch")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
IN_ORDER = (
    "is right in forward thread and queue order only and fails in a reversed or shuffled order"
)

# --- first_overwrite, waits_for


@answers.right("first_overwrite")
def first_overwrite(steps):
    on_its_way = False
    for at, step in enumerate(steps):
        if step == "fill" and on_its_way:
            return at
        if step != "fill":
            on_its_way = step == "copy"
    return None


@answers.right("first_overwrite")
def by_looking_back(steps):
    for at, step in enumerate(steps):
        before = [one for one in steps[:at] if one != "fill"]
        if step == "fill" and before[-1:] == ["copy"]:
            return at
    return None


@answers.wrong("first_overwrite", "takes the first fill")
def any_fill(steps):
    return steps.index("fill") if "fill" in steps else None


@answers.wrong("first_overwrite", "takes the first fill after a copy, wait or not")
def never_waits(steps):
    sent = steps.index("copy") if "copy" in steps else len(steps)
    return next((at for at in range(sent, len(steps)) if steps[at] == "fill"), None)


@answers.wrong("first_overwrite", "asks for a wait anywhere before")
def one_wait_is_enough(steps):
    for at, step in enumerate(steps):
        if step == "fill" and "copy" in steps[:at] and "wait" not in steps[:at]:
            return at
    return None


@answers.wrong("first_overwrite", "takes a second copy for the end of the first")
def copies_take_turns(steps):
    on_its_way = False
    for at, step in enumerate(steps):
        if step == "fill" and on_its_way:
            return at
        if step != "fill":
            on_its_way = step == "copy" and not on_its_way
    return None


@answers.wrong("first_overwrite", "gives how many fills come too early")
def counts(steps):
    pairs = itertools.pairwise(steps)
    return sum(pair == ("copy", "fill") for pair in pairs) or None


@answers.right("waits_for")
def waits_for(batch, buffers):
    return None if batch < buffers else batch - buffers


@answers.wrong("waits_for", "waits for the batch before")
def neighbour(batch, buffers):
    return batch - 1 if batch else None


@answers.wrong("waits_for", "waits for somebody in the first round, too")
def negative(batch, buffers):
    return batch - buffers


@answers.wrong("waits_for", "gives the buffer")
def buffer_of(batch, buffers):
    return None if batch < buffers else batch % buffers


@answers.wrong("waits_for", "knows two buffers only")
def two(batch, buffers):
    return None if batch < 2 else batch - 2


@answers.wrong("waits_for", "takes batch 0 for nobody")
def falsy(batch, buffers):
    return max(batch - buffers, 0) or None


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
    exercise = find("overwritten_batch.safe_async_copy")
    right = []
    for number in range(64):
        case = exercise.make(1, number, 2)
        found = exercise.drive(trusts_the_order, *case.inputs)
        right.append(found["results"] == case.truth["results"])
    assert 0 < sum(right) < 64


@pytest.mark.parametrize("answer", [synchronizes, synchronizes_events, polls])
def test_what_the_host_has_waited_for_is_called_no_race(answer):
    exercise = find("overwritten_batch.safe_async_copy")
    for number in range(8):
        found = exercise.drive(answer, *exercise.make(1, number, 2).inputs)
        assert found["batches that may be read before they arrived"] == []
        assert found["batches that may be overwritten before they were read"] == []


def test_a_buffer_or_a_batch_that_is_not_there_is_refused_in_words():
    exercise = find("overwritten_batch.safe_async_copy")
    inputs = exercise.make(1, 0, 0).inputs
    for wrong in [(99, 0), (0, 2)]:
        with pytest.raises(ValueError, match=r"batch 99|buffers 0 and 1"):
            exercise.drive(lambda n, copy, use, a, b, wrong=wrong: copy(*wrong, a), *inputs)


def test_the_picture_shows_the_pairs_that_nothing_orders():
    exercise = find("overwritten_batch.safe_async_copy")
    case = exercise.make(1, 60, 6)
    for answer, red in [(trusts_the_order, True), (never_consumed, True), (upload, False)]:
        picture = exercise.picture(case, exercise.drive(answer, *case.inputs), case.truth)
        assert (picture is not None) == red


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("first_overwrite", counts, "there is no fill"),
        ("first_overwrite", never_waits, "Nothing was on its way"),
        ("first_overwrite", copies_take_turns, "other copies do not"),
        ("waits_for", buffer_of, "the number of the buffer"),
        ("waits_for", neighbour, "in another buffer"),
        ("waits_for", falsy, "is not new any more"),
    ],
)
def test_the_first_hint_fits_the_wrong_answer(name, answer, words):
    assert words in first_hint(find(f"overwritten_batch.{name}"), answer)


test_answers = answers.tests()
