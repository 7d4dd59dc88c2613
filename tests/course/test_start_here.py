from itertools import product
from math import prod

import torch

from labkit.course.exercises.start_here import KINDS, REFUSED
from tests.course.answers import CATCHES, Answers, catches

answers = Answers("start_here")


def elements(view):
    sizes, strides, offset, _ = view
    for index in product(*map(range, sizes)):
        yield offset + sum(i * s for i, s in zip(index, strides, strict=True))


def ends(view):
    return [(element * view[3], (element + 1) * view[3]) for element in elements(view)]


@answers.right("warm_up")
def warm_up(views):
    return len({b for view in views for start, end in ends(view) for b in range(start, end)})


@answers.right("warm_up")
def warm_up_with_intervals(views):
    total, reached = 0, 0
    for start, end in sorted(interval for view in views for interval in ends(view)):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


@answers.wrong("warm_up", "sums nbytes of every view")
def sums_nbytes(views):
    return sum(prod(sizes) * itemsize for sizes, _, _, itemsize in views)


@answers.wrong("warm_up", "takes max end minus min start")
def takes_the_span(views):
    intervals = [interval for view in views for interval in ends(view)]
    return max((e for _, e in intervals), default=0) - min((s for s, _ in intervals), default=0)


@answers.wrong("warm_up", "ignores itemsize")
def ignores_itemsize(views):
    return len({element for view in views for element in elements(view)})


@answers.wrong("warm_up", "counts a view of size 0 as one element")
def counts_empty_views(views):
    filled = [(tuple(max(1, size) for size in sizes), *rest) for sizes, *rest in views]
    return warm_up(filled)


@answers.wrong("warm_up", "returns the size of the storage")
def returns_the_storage(views):
    return max((end for view in views for _, end in ends(view)), default=0)


def record_of(kind, driver):
    return kind, not (kind == "time" and driver == "emulator")


@answers.right("read_the_banner")
def read_the_banner(record):
    kind, allowed = record_of(KINDS[record["kind"]], record["driver"])
    return kind, allowed, "" if allowed else REFUSED


@answers.wrong("read_the_banner", "allows every time")
def allows_every_time(record):
    return KINDS[record["kind"]], True, ""


@answers.wrong("read_the_banner", "refuses every number on the emulator")
def refuses_the_emulator(record):
    refused = record["driver"] == "emulator"
    return KINDS[record["kind"]], not refused, REFUSED if refused else ""


@answers.wrong("read_the_banner", "decides from torch.cuda.is_available alone")
def asks_torch(record):
    kind, allowed = KINDS[record["kind"]], torch.cuda.is_available()
    return kind, allowed, "" if allowed else REFUSED


@answers.wrong("read_the_banner", "reads the label text rather than the record kind")
def reads_the_label(record):
    words = record["label"].partition(" of ")[0].replace(" ", "_")
    kind, allowed = record_of(KINDS[words], record["driver"])
    return kind, allowed, "" if allowed else REFUSED


@answers.wrong("read_the_banner", "returns the literal answer of the example in the statement")
def returns_the_example(record):
    return "time", False, REFUSED


@answers.wrong("read_the_banner", CATCHES)
def catches_everything(record):
    return catches(lambda r: read_the_banner({**r, "kind": r["type"]}), ("value", True, ""))(record)


test_answers = answers.tests()
