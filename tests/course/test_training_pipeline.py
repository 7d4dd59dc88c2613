"""Right and wrong answers to the exercises on a training pipeline."""

import itertools
import math
from collections import deque

import pytest
import torch

from labkit.course.checks import failing_cases
from labkit.course.exercises._never_right import CONSTANT, TOO_SLOW
from labkit.course.notebook_form import ROOT, read_notebook
from labkit.pipeline.accumulation import accumulate as finished_accumulate
from tests.course.answers import Answers, first_hint

answers = Answers("training_pipeline")

# --- steps_after


@answers.right("steps_after")
def steps_after(count, k):
    return [i for i in range(count) if (i + 1) % k == 0 or i + 1 == count]


@answers.wrong("steps_after", "steps at i % k")
def at_i(count, k):
    return [i for i in range(count) if i % k == 0]


@answers.wrong("steps_after", "forgets the last group")
def whole_groups(count, k):
    return [i for i in range(count) if (i + 1) % k == 0]


@answers.wrong("steps_after", "steps twice at the end")
def twice(count, k):
    return whole_groups(count, k) + [count - 1] * bool(count)


def test_a_step_too_many_is_told_as_that():
    assert "more than once" in first_hint(answers.exercises["steps_after"], twice)


# --- group_size


@answers.right("group_size")
def group_size(at, count, k):
    return min(k, count - at // k * k)


@answers.wrong("group_size", "always k")
def always_k(at, count, k):
    return k


@answers.wrong("group_size", "what is left of the division")
def rest(at, count, k):
    return k if at < count // k * k else count % k + 1


@answers.wrong("group_size", "an empty last group")
def remainder(at, count, k):
    return count % k if at >= (count - 1) // k * k else k


def test_a_remainder_of_0_is_told_as_a_whole_group():
    assert "remainder is 0" in first_hint(answers.exercises["group_size"], remainder)


@answers.wrong("group_size", "what is left after the batch")
def what_is_left(at, count, k):
    return min(k, count - at)


# --- accumulate


def made(
    step=steps_after, divide=group_size, zero="step", begin=True, scales=True, unscale=False,
    past=False, update="step", until_infinite=False,
):  # fmt: skip
    def accumulate(loss_of, optimizer, batches, k, scaler=None):
        used = scaler if scales else None
        if begin:
            optimizer.zero_grad()
        ends = set(step(len(batches), k))
        for i, batch in enumerate(batches):
            loss = loss_of(batch) / divide(i, len(batches), k)
            if until_infinite and not loss.isfinite():
                continue
            (used.scale(loss) if used else loss).backward()
            if i in ends and used:
                if unscale:
                    used.unscale_(optimizer)
                    for group in optimizer.param_groups:
                        for parameter in group["params"]:
                            parameter.grad /= used.get_scale()
                optimizer.step() if past else used.step(optimizer)
            elif i in ends:
                optimizer.step()
            if used and (update == "batch" or (update == "step" and i in ends)):
                updates(used, optimizer)
            if zero == "batch" or (zero == "step" and i in ends):
                optimizer.zero_grad()

    return accumulate


def updates(scaler, optimizer):
    """An update without a step before it is refused: this one unscales first."""
    try:
        scaler.update()
    except AssertionError:
        scaler.unscale_(optimizer)
        scaler.update()


answers.right("accumulate")(made())
answers.wrong("accumulate", "begins with the gradients that are there")(made(begin=False))
answers.wrong("accumulate", "steps at i % k")(made(step=at_i))
answers.wrong("accumulate", "forgets the flush")(made(step=whole_groups))
answers.wrong("accumulate", "divides by k for the partial group")(made(divide=always_k))
answers.wrong("accumulate", "never divides")(made(divide=lambda *place: 1))
answers.wrong("accumulate", "zeroes gradients after every micro-batch")(made(zero="batch"))
answers.wrong("accumulate", "leaves the scaler out")(made(scales=False))
answers.wrong("accumulate", "unscales twice")(made(unscale=True))
answers.wrong("accumulate", "steps past the scaler")(made(past=True))
answers.wrong("accumulate", "updates the scale after every micro-batch")(made(update="batch"))
answers.wrong("accumulate", "never updates the scale")(made(update="never"))
answers.wrong("accumulate", "gives up the group at an infinity")(made(until_infinite=True))
answers.wrong("accumulate", "never zeroes")(made(zero="never"))


def in_groups(loss_of_group):
    """One backward for a whole group: right weights, and the memory of large batches."""

    def accumulate(loss_of, optimizer, batches, k, scaler=None):
        for start in range(0, len(batches), k):
            optimizer.zero_grad()
            loss = loss_of_group(loss_of, batches[start : start + k])
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

    return accumulate


adds_losses = answers.wrong("accumulate", "adds up the losses of a group")(
    in_groups(lambda loss_of, group: sum(loss_of(batch) for batch in group) / len(group))
)
joins_batches = answers.wrong("accumulate", "joins the batches of a group")(
    in_groups(lambda loss_of, group: loss_of(torch.cat(group)))
)


@pytest.mark.parametrize("answer", [adds_losses, joins_batches])
def test_a_group_that_lies_in_memory_together_is_told_so(answer):
    assert "before you ask for the next" in first_hint(answers.exercises["accumulate"], answer)


@answers.wrong("accumulate", "leaves NaN in the weights")
def to_nan(loss_of, optimizer, batches, k, scaler=None):
    made()(loss_of, optimizer, batches, k, scaler)
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.mul_(math.nan)


@answers.wrong("accumulate", CONSTANT)
def writes_the_example(loss_of, optimizer, batches, k, scaler=None):
    with torch.no_grad():
        optimizer.param_groups[0]["params"][0].fill_(0.1)


def never_updated(loss_of, optimizer, batches, k, scaler=None):
    """Every step but the update: the second step is refused."""
    optimizer.zero_grad()
    for start in range(0, len(batches), k):
        group = batches[start : start + k]
        for batch in group:
            loss = loss_of(batch) / len(group)
            (loss if scaler is None else scaler.scale(loss)).backward()
        (optimizer.step if scaler is None else lambda: scaler.step(optimizer))()
        optimizer.zero_grad()


def updated_early(loss_of, optimizer, batches, k, scaler=None):
    """The update comes before the step: it is refused."""
    optimizer.zero_grad()
    for i, batch in enumerate(batches):
        loss = loss_of(batch) / group_size(i, len(batches), k)
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.update()
        if i in steps_after(len(batches), k):
            (optimizer.step if scaler is None else lambda: scaler.step(optimizer))()
            optimizer.zero_grad()


def test_each_mistake_of_a_loop_gets_its_own_hint():
    exercise = answers.exercises["accumulate"]
    assert "divide each loss" in first_hint(exercise, made(divide=lambda *place: 1))
    assert "cleared after each step" in first_hint(exercise, made(zero="never"))
    assert "went backward before you" in first_hint(exercise, made(begin=False))
    assert "its own size" in first_hint(exercise, made(divide=always_k))
    assert "scaler.update() once" in first_hint(exercise, made(update="batch"))
    assert "goes backward, scaler.scale" in first_hint(exercise, made(unscale=True))
    assert "scaler.update() once" in first_hint(exercise, made(scales=False))
    assert "scaler.update() once" in first_hint(exercise, never_updated)  # it raises
    assert "scaler.update() once" in first_hint(exercise, updated_early)  # so does this


# --- lookahead


def ahead(items, depth, most=None):
    waiting = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > depth:
            yield waiting.popleft()
    yield from list(waiting)[:most]


answers.right("lookahead")(ahead)


@answers.wrong("lookahead", "restarts the iterator")
def restarts(items, depth):
    yield next(iter(items), None)
    yield from ahead(items, depth)


@answers.wrong("lookahead", "drops the last d")
def drops(items, depth):
    return ahead(items, depth, most=0)


@answers.wrong("lookahead", "swallows the exception")
def swallows(items, depth):
    try:
        yield from ahead(items, depth)
    except Exception:
        return


@answers.wrong("lookahead", "fetches one too few")
def one_too_few(items, depth):
    return ahead(items, depth - 1)


@answers.wrong("lookahead", "fetches everything first")
def everything(items, depth):
    return iter(list(items))


@answers.wrong("lookahead", "looks one ahead whatever the depth")
def one(items, depth):
    return ahead(items, 1)


@answers.wrong("lookahead", "hands out the same item twice")
def one_twice(items, depth):
    for item in ahead(items, depth):
        yield item
        if item == 1:
            yield item


@answers.wrong("lookahead", "deadlocks on an empty loader")
def waits_for_an_item(items, depth):
    source, waiting = iter(items), deque()
    while not waiting:
        waiting.extend(itertools.islice(source, 1))
    return ahead(itertools.chain(waiting, source), depth)


@answers.wrong("lookahead", "takes it that there is an item")
def takes_one(items, depth):
    source = iter(items)
    first = next(source)
    return ahead((one for part in ([first], source) for one in part), depth)


@answers.wrong("lookahead", "takes it that there is an item")
def never_asks_whether_it_ended(items, depth):
    source, waiting = iter(items), deque()
    while True:
        while len(waiting) <= depth:
            waiting.append(next(source))
        yield waiting.popleft()


@answers.wrong("lookahead", "takes None for the end")
def ends_at_none(items, depth):
    source = iter(items)
    return ahead(iter(lambda: next(source, None), None), depth)


@answers.wrong("lookahead", TOO_SLOW)
def by_itself(items, depth, waiting=()):
    source = iter(items)
    for item in itertools.islice(source, 1):
        waiting = (*waiting, item)
        if len(waiting) > depth:
            yield waiting[0]
        yield from by_itself(source, depth, waiting[-depth:])
        return
    yield from waiting


def test_each_mistake_of_an_iterator_gets_its_own_hint():
    exercise = answers.exercises["lookahead"]
    assert "missing at the end" in first_hint(exercise, drops)
    assert "may be None" in first_hint(exercise, ends_at_none)
    assert "was not told" in first_hint(exercise, swallows)
    assert "should have been fetched" in first_hint(exercise, one_too_few)
    assert "thousands of items" in first_hint(exercise, by_itself)
    assert "nobody catches it" in first_hint(exercise, takes_one)
    assert "nobody catches it" in first_hint(exercise, never_asks_whether_it_ended)


def test_what_came_back_is_told_in_the_words_of_what_was_expected():
    exercise = answers.exercises["lookahead"]
    (evidence, *_) = failing_cases(exercise, one_too_few, 3, search=False)
    assert "'fetched by then'" in evidence.expected and "'fetched by then'" in evidence.got
    assert "depth = " in evidence.input


test_answers = answers.tests()


def test_the_chapter_begins_again_with_the_weight_and_the_optimizer_that_it_has():
    path = ROOT / "notebooks/1_fundamentals/9_training_pipeline.ipynb"
    hidden = next(
        cell["source"] for cell in read_notebook(path)["cells"] if "def fresh(" in cell["source"]
    )
    names = {"torch": torch}
    exec(hidden, names)
    names["w"].data.fill_(3.0)
    finished_accumulate(names["loss_of"], names["optimizer"], names["fresh"](), 2)
    assert names["w"].item() == names["should_be"]
