import pytest
import torch
import torch.distributed as dist

from labkit import course
from labkit.course.benches.two_ranks import RankFailed
from labkit.course.exercise import Case
from labkit.course.exercises import two_processes
from tests.course.answers import Answers, first_hint

answers = Answers("two_processes")


# --- joined


@answers.right("joined")
def joined(means, rows):
    return sum(mean * count for mean, count in zip(means, rows, strict=True)) / sum(rows)


@answers.wrong("joined", "averages the means")
def average(means, rows):
    return sum(means) / len(means)


@answers.wrong("joined", "adds the means")
def add(means, rows):
    return sum(means)


@answers.wrong("joined", "knows whole means only")
def whole_means(means, rows):
    return joined([int(mean) for mean in means], rows)


@answers.wrong("joined", "knows powers of two only")
def powers_of_two(means, rows):
    return joined(means, [1 << (count.bit_length() - 1) for count in rows])


@answers.wrong("joined", "divides by the ranks")
def by_ranks(means, rows):
    return joined(means, rows) * sum(rows) / len(rows)


# --- buckets


@answers.right("buckets")
def buckets(counts, limit):
    found, held = [], limit
    for place in reversed(range(len(counts))):
        if held >= limit:
            found.append([])
            held = 0
        found[-1].append(place)
        held += counts[place]
    return found


@answers.wrong("buckets", "begins with the first parameter")
def from_first(counts, limit):
    last = len(counts) - 1
    return [[last - place for place in group] for group in buckets(counts[::-1], limit)]


@answers.wrong("buckets", "never goes above the limit")
def at_most(counts, limit):
    found, held = [], limit
    for place in reversed(range(len(counts))):
        if not found or held + counts[place] > limit:
            found.append([])
            held = 0
        found[-1].append(place)
        held += counts[place]
    return found


@answers.wrong("buckets", "closes a bucket only above the limit")
def above(counts, limit):
    return buckets(counts, limit + 1)


@answers.wrong("buckets", "makes an empty bucket")
def one_more(counts, limit):
    found, held = [[]], 0
    for place in reversed(range(len(counts))):
        found[-1].append(place)
        held += counts[place]
        if held >= limit:
            found.append([])
            held = 0
    return found


@answers.wrong("buckets", "ignores the limit")
def one_bucket(counts, limit):
    return [list(reversed(range(len(counts))))] if counts else []


@answers.wrong("buckets", "drops parameters without numbers")
def without_empty(counts, limit):
    groups = [[place for place in group if counts[place]] for group in buckets(counts, limit)]
    return [group for group in groups if group]


def test_the_buckets_are_pytorchs():
    """Its own function takes tensors in the order given, and limits in bytes."""
    counts, limit = [24, 6, 30, 5, 5, 1, 9], 25
    tensors = [torch.empty(count) for count in reversed(counts)]
    theirs, _ = dist._compute_bucket_assignment_by_size(tensors, [limit * 4])
    assert buckets(counts, limit) == [[6 - place for place in group] for group in theirs]


# --- bucketed_allreduce


def start_complete(self):
    while len(self.sent) < len(self.groups) and self.ready >= set(self.groups[len(self.sent)]):
        self.start()


def arrived(self, place):
    self.ready.add(place)
    start_complete(self)


def start_rest(self):
    while len(self.sent) < len(self.groups):
        self.start()


def write(self, ranks=None, wait=True):
    for group, flat, work in self.sent:
        if wait:
            work.wait()
        parts = (flat / (ranks or self.ranks)).split([p.numel() for p in group])
        for p, part in zip(group, parts, strict=True):
            p.grad = part.view_as(p)


def begin(self):
    self.ready, self.sent = set(), []


def finish(self):
    start_rest(self)
    write(self)
    begin(self)


answers.right("bucketed_allreduce")((arrived, finish))


def wrong(why, arrived=arrived, finish=finish):
    answers.wrong("bucketed_allreduce", why)((arrived, finish))
    return arrived, finish


AFTERWARDS = wrong(
    "reduces after backward only (no overlap in the log)", arrived=lambda self, place: None
)


def sums(self):
    start_rest(self)
    write(self, ranks=1)
    begin(self)


def halves(self):
    start_rest(self)
    write(self, ranks=2)
    begin(self)


def at_least_two(self):
    start_rest(self)
    write(self, ranks=max(self.ranks, 2))
    begin(self)


SUMS = wrong("sums instead of averages", finish=sums)
wrong("sums instead of averages", finish=at_least_two)
wrong("sums instead of averages", finish=halves)


def of_what_was_ready(self):
    write(self)
    begin(self)


ONLY_READY = wrong("deadlocks on unused parameters", finish=of_what_was_ready)


def as_they_come(self, place):
    self.ready.add(place)
    group = next(one for one in self.groups if place in one)
    if self.ready >= set(group):
        self.groups.remove(group)
        self.groups.insert(len(self.sent), group)
        self.start()


AS_THEY_COME = wrong("bucket order differs by rank", arrived=as_they_come)


def impatient(self, place):
    arrived(self, place)
    for _, _, work in self.sent:
        work.wait()


IMPATIENT = wrong("waits in the hook", arrived=impatient)


def hasty(self):
    start_rest(self)
    write(self, wait=False)
    begin(self)


HASTY = wrong("never waits", finish=hasty)


def one_at_a_time(self, place):
    self.ready.add(place)
    if len(self.sent) < len(self.groups) and self.ready >= set(self.groups[len(self.sent)]):
        self.start()


ONE_AT_A_TIME = wrong("starts one bucket at a time", arrived=one_at_a_time)


def forgets_to_begin(self):
    start_rest(self)
    write(self)
    self.sent = []


def never_forgets(self):
    start_rest(self)
    write(self)


ONE_STEP = wrong("works for one step only", finish=forgets_to_begin)
FORGETS_NOTHING = wrong("works for one step only", finish=never_forgets)


def of_its_own(self):
    had = [p.grad is not None for p in self.parameters]
    finish(self)
    for p, own in zip(self.parameters, had, strict=True):
        p.grad = p.grad if own else None


wrong("leaves a gradient out that its rank did not use", finish=of_its_own)


def last_closes_it(self, place):
    while len(self.sent) < len(self.groups) and place == self.groups[len(self.sent)][-1]:
        self.start()


wrong(
    "is right in forward order only and fails in a reversed or shuffled order",
    arrived=last_closes_it,
)


test_answers = answers.tests()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (AFTERWARDS, "at the wrong time"),
        (ONE_AT_A_TIME, "at the wrong time"),
        (IMPATIENT, "waits inside backward"),
        (ONLY_READY, "never gets ready"),
        (AS_THEY_COME, "same order"),
        (ONE_STEP, "One step is right"),
        (FORGETS_NOTHING, "One step is right"),
        (SUMS, "average"),
        (HASTY, "Nobody waited"),
    ],
)
def test_a_hint_fits_the_mistake(answer, text):
    assert text in first_hint(two_processes.bucketed_allreduce, answer)


def test_a_failing_step_is_drawn():
    exercise = two_processes.bucketed_allreduce
    case = exercise.make(7, 30, 3)
    right = exercise.right(case)
    got = two_processes.run_alone(AFTERWARDS, *exercise.make(7, 30, 3).inputs)
    assert "backward ends" in {s["name"] for s in exercise.picture(Case(()), got, right).spans}


def test_buckets_that_arrived_together_end_together():
    log = ["grad 1", "bucket 0 starts", "grad 0", "backward ends", "bucket 1 starts", "all arrived"]
    drawn = two_processes.picture_of_log(log).spans
    ends = {span["name"]: span["end"] for span in drawn if "bucket" in span["name"]}
    assert ends == {"bucket 0": 6, "bucket 1": 6}


# --- on_two


def test_two_ranks_add_up_and_bring_back_tensors():
    def work(rank):
        total = torch.tensor([1.0, 2.0]) * (rank + 1)
        dist.all_reduce(total)
        return rank, total.tolist(), dist.get_world_size()

    assert course.on_two(work) == [(0, [3.0, 6.0], 2), (1, [3.0, 6.0], 2)]


def test_what_goes_wrong_in_a_rank_is_told_for_each():
    def raises(rank):
        raise ValueError(f"no {rank}")

    def is_alone(rank):
        dist.all_reduce(torch.ones(1)) if rank == 0 else None

    for work, text in ((raises, "rank 0: ValueError: no 0; rank 1: Value"), (is_alone, "rank 0: ")):
        try:
            course.on_two(work)
        except RankFailed as error:
            assert text in str(error)
        else:
            raise AssertionError("nothing was told")
