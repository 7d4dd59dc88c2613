"""Right and wrong answers to the exercises on a stream nobody recorded; the pipeline's runs."""

import pytest

from labkit.course.checks import outcomes
from labkit.course.exercises import _recorded_views
from labkit.cuda.happens_before import races
from tests.course.answers import Answers, first_hint

answers = Answers("stream_nobody_recorded")


# --- inside


@answers.right("inside")
def inside(start, nbytes, address):
    return start <= address < start + nbytes


@answers.wrong("inside", "asks for the start alone")
def at_start(start, nbytes, address):
    return address == start


@answers.wrong("inside", "counts the first byte behind it")
def end_too(start, nbytes, address):
    return start <= address <= start + nbytes


@answers.wrong("inside", "forgets addresses before it")
def before_too(start, nbytes, address):
    return address < start + nbytes


# --- find_block


@answers.right("find_block")
def find_block(blocks, view):
    return view.storage_ptr if view.storage_ptr in blocks else None


@answers.wrong("find_block", "the look-up of 2019")
def by_address(blocks, view):
    return view.data_ptr if view.data_ptr in blocks else None


@answers.wrong("find_block", "records only what is whole")
def whole(blocks, view):
    return view.storage_ptr if blocks.get(view.storage_ptr) == view.nbytes else None


@answers.wrong("find_block", "searches for the address, so empty views are lost")
def by_range(blocks, view):
    return next((s for s, n in blocks.items() if s <= view.data_ptr < s + n), None)


@answers.wrong("find_block", "raises for foreign memory")
def raises(blocks, view):
    blocks[view.storage_ptr]
    return view.storage_ptr


@answers.wrong("find_block", "takes foreign memory for a block")
def never_none(blocks, view):
    return view.storage_ptr


@answers.wrong("find_block", "records for every block")
def last(blocks, view):
    return max(blocks)


# --- unprotected


def checker(own=True, any_record=False, any_wait=False, future=False, only_freed=True, late=False,
            no_wait=False):  # fmt: skip
    """The right checker, or one with a mistake."""

    def unprotected(log):
        owner, working, recorded, waited, found = {}, {}, {}, set(), []
        for event in log:
            if event[0] == "malloc":
                owner[event[1]], working[event[1]], recorded[event[1]] = event[2], [], set()
            elif event[0] == "work":
                _, block, stream = event
                if (stream != owner[block] or not own) and not (
                    future and (owner[block], stream) in waited
                ):
                    working[block].append(stream)
                    if late:
                        recorded[block].discard(stream)
            elif event[0] == "record":
                recorded[event[1]].add(event[2])
            elif event[0] == "wait":
                waited.add(event[1:])
                for block, stream in owner.items():
                    if not no_wait and (any_wait or stream == event[1]):
                        working[block] = [one for one in working[block] if one != event[2]]
            else:
                block = event[1]
                left = set(working[block]) - recorded[block]
                if left and not (any_record and recorded[block]):
                    found.append(block)
        if only_freed:
            return found
        freed = {event[1] for event in log if event[0] == "free"}
        return found + [b for b in owner if b not in freed and set(working[b]) - recorded[b]]

    return unprotected


answers.right("unprotected")(checker())
answers.wrong("unprotected", "takes any record for all streams")(checker(any_record=True))
answers.wrong("unprotected", "takes a wait for the future")(checker(future=True))
answers.wrong("unprotected", "takes a wait of any stream")(checker(any_wait=True))
answers.wrong("unprotected", "asks for records of the own stream")(checker(own=False))
answers.wrong("unprotected", "names what was never freed")(checker(only_freed=False))
answers.wrong("unprotected", "wants the record behind the work")(checker(late=True))


@answers.right("unprotected")
def follows_chains(log):
    done, work, owner, recorded, found = {}, {}, {}, set(), []
    for number, (kind, name, *rest) in enumerate(log):
        if kind == "malloc":
            owner[name], work[name] = rest[0], {}
        elif kind == "work":
            work[name][number] = rest[0]
            done.setdefault(rest[0], set()).add(number)
        elif kind == "record":
            recorded.add((name, rest[0]))
        elif kind == "wait":
            done.setdefault(name, set()).update(done.get(rest[0], ()))
        else:
            unknown = work[name].keys() - done.get(owner[name], set())
            if any((name, work[name][at]) not in recorded for at in unknown):
                found.append(name)
    return found


@pytest.mark.parametrize(
    ("wrong", "stage", "said"),
    [
        (checker(own=False), "work and free", "own stream needs no record"),
        (checker(late=True), "record", "before the work and after it"),
        (checker(any_record=True), "record", "a record is for one stream"),
        (checker(any_wait=True), "wait", "the block's own stream waits"),
        (checker(future=True), "wait", "after that work"),
        (checker(no_wait=True), "wait", "has waited for the one that worked"),
    ],
)
def test_mistakes_of_a_checker_get_their_hints(wrong, stage, said):
    exercise = answers.exercises["unprotected"]
    assert next(one.name for one in outcomes(exercise, wrong, 7) if one.failures) == stage
    assert said in first_hint(exercise, wrong)


test_answers = answers.tests()


# --- what the chapter shows


def test_the_look_up_of_2019_lets_frames_be_overwritten_and_the_repair_none():
    right = list(range(_recorded_views.FRAMES))
    old = [_recorded_views.play(by_address, seed).read for seed in range(64)]
    assert 0 < old.count(right) < 64
    assert all(_recorded_views.play(find_block, seed).read == right for seed in range(64))


def test_the_picture_has_races_before_the_repair_and_none_after_it():
    assert list(races(_recorded_views.play(by_address, 0).program))
    assert not any(list(races(_recorded_views.play(find_block, seed).program)) for seed in range(8))


def test_the_old_look_up_is_as_good_as_none():
    for seed in range(16):
        old = _recorded_views.play(by_address, seed)
        assert old == _recorded_views.play(by_address, seed, protect=False)


def test_pytorchs_recordings_are_red_by_address_and_green_by_storage():
    assert _recorded_views.against_recordings(by_address, 10).equal == 0
    assert not _recorded_views.against_recordings(by_range, 10).passed
    assert _recorded_views.against_recordings(find_block, 10).passed
