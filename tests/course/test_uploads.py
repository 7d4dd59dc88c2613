"""Right and wrong answers to the exercises on uploads."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from labkit.course.exercises._clocked_uploads import run
from tests.course.answers import Answers, first_hint

answers = Answers("uploads")

answers.right("best_gain")(lambda times: sum(times) / max(times))
for why, wrong in {
    "as many times as there are workers": lambda times: len(times),
    "divides by the shortest": lambda times: sum(times) / min(times),
    "knows three workers only": lambda times: sum(times[:3]) / max(times[:3]),
    "knows six workers only": lambda times: sum(times[:6]) / max(times[:6]),
    "knows short times only": lambda times: sum(times) / max(times) if max(times) < 50 else 1,
    "without the slowest": lambda times: (sum(times) - max(times)) / max(times),
}.items():
    answers.wrong("best_gain", why)(wrong)


@answers.right("period")
def period(fill, copy, use, staging, buffers):
    return max(fill, copy, use, (fill + copy) / staging, (copy + use) / buffers)


@answers.right("period")
def in_another_order(fill, copy, use, staging, buffers):
    """At a tie `max` returns the first: here a float where the other returns an int."""
    return max((copy + use) / buffers, (fill + copy) / staging, use, copy, fill)


for why, wrong in {
    "whole µs only": lambda *case: int(period(*case)),
    "the slowest worker": lambda f, c, u, s, b: max(f, c, u),
    "forgets the staging buffers": lambda f, c, u, s, b: max(f, c, u, (c + u) / b),
    "forgets the device's buffers": lambda f, c, u, s, b: max(f, c, u, (f + c) / s),
    "one buffer of each": lambda f, c, u, s, b: max(f + c, c + u),
    "adds the two kinds": lambda f, c, u, s, b: max(f, c, u, (f + c) / s + (c + u) / b),
}.items():
    answers.wrong("period", why)(wrong)


def loader(
    number, gpu, frames=None, waits=True, arrives=True, uses=True, late=False, staging=None,
    buffers=None, one_event=False, after=lambda gpu: None,
):  # fmt: skip
    """The right loader; each switch takes one thing out of it."""
    staging, buffers = staging or gpu.staging, buffers or gpu.buffers
    copied = [gpu.event() for _ in range(staging)]
    if one_event:
        copied = copied[:1] * staging
    used = [gpu.event() for _ in range(buffers)]
    for n in range(number if frames is None else frames):
        s, b = n % staging, n % buffers
        if waits:
            copied[s].synchronize()
        gpu.fill(s, n)
        if uses:
            gpu.copying.wait_event(used[b])
        gpu.copy(s, b)
        arrived = gpu.copying.record_event()
        if not late:
            copied[s].record(gpu.copying)
        if arrives:
            gpu.working.wait_event(arrived)
        gpu.use(b)
        used[b].record(gpu.working)
        if late:
            copied[s].record(gpu.working)
        after(gpu)


answers.right("overlap_loader")(loader)


@answers.right("overlap_loader")
def streams_wait_for_streams(number, gpu):
    """Other means, the same order: the events of the streams, kept in lists."""
    copies, uses = [], []
    for n in range(number):
        if n >= gpu.staging:
            copies[n - gpu.staging].synchronize()
        gpu.fill(n % gpu.staging, n)
        if n >= gpu.buffers:
            gpu.copying.wait_event(uses[n - gpu.buffers])
        gpu.copy(n % gpu.staging, n % gpu.buffers)
        copies.append(gpu.copying.record_event())
        gpu.working.wait_event(copies[n])
        gpu.use(n % gpu.buffers)
        uses.append(gpu.working.record_event())


for why, switches in {
    "one buffer": {"staging": 1, "buffers": 1},
    "host waits": {"after": lambda gpu: gpu.copying.synchronize()},
    "reuses a buffer under copy": {"waits": False},
    "waits on device": {"after": lambda gpu: (gpu.copying.synchronize(),
                                              gpu.working.synchronize())},
    "reads before the copy has come": {"arrives": False},
    "copies into a buffer in use": {"uses": False},
    "keeps staging until the frame is used": {"late": True},
    "knows two of each only": {"staging": 2, "buffers": 2},
    "waits for one event of all staging buffers": {"one_event": True},
}.items():  # fmt: skip
    answers.wrong("overlap_loader", why)(
        lambda number, gpu, switches=switches: loader(number, gpu, **switches)
    )
answers.wrong("overlap_loader", "drops the last")(
    lambda number, gpu: loader(number, gpu, frames=number - 1)
)

test_answers = answers.tests()


@pytest.mark.parametrize(
    ("why", "says"),
    [
        ("reuses a buffer under copy", "wrote the next frame over one"),
        ("reads before the copy has come", "`gpu.working` has to wait"),
        ("copies into a buffer in use", "`gpu.copying` has to wait"),
        ("knows two of each only", "say how many there are"),
        ("host waits", "the host waits for nearly every frame"),
        ("keeps staging until the frame is used", "right behind the last work"),
        ("drops the last", "Frames are missing"),
    ],
)
def test_a_hint_is_about_what_went_wrong(why, says):
    make = dict(answers.wrongs["overlap_loader"])[why]
    assert says in first_hint(answers.exercises["overlap_loader"], make())


@pytest.mark.parametrize("case", [(1, 9), (2, 9), (9, 1), (2, 2), (1, 1), (3, 2)])
def test_a_loader_takes_what_its_buffers_and_workers_allow(case):
    """The rule of the chapter, on the clock, frame by frame."""
    for times in ((3, 4, 5), (1, 1, 9), (7, 2, 3), (2, 9, 2)):
        frames = [np.array([n]) for n in range(25)]
        gpu, read = run(loader, frames, *case, *times)
        assert [int(one[0]) for one in read] == list(range(25))
        begins = [span["start"] for span in gpu.spans() if span["lane"] == "network"]
        assert (begins[24] - begins[12]) / 12 == pytest.approx(period(*times, *case))
        assert gpu.microseconds() <= sum(times) + 24 * Fraction(period(*times, *case)) + 1e-6


def test_what_is_no_buffer_is_refused():
    frames = [np.array([1])]
    for wrong in (1, -1, True, 0.0):
        with pytest.raises(ValueError, match="there are 1, numbered from 0"):
            run(lambda number, gpu, slot=wrong: gpu.fill(slot, 0), frames, 1, 1, 1, 1, 1)


def test_a_query_that_says_yes_is_a_wait():
    def polls(number, gpu):
        event = gpu.event()
        for n in range(number):
            while not event.query():
                pass
            gpu.fill(0, n)
            gpu.copy(0, n)
            event.record(gpu.copying)

    gpu, _ = run(polls, [np.array([n]) for n in range(3)], 1, 3, 1, 4, 1)
    assert isinstance(gpu.races(), list)
    assert not gpu.races(), SimpleNamespace(found=gpu.races())
