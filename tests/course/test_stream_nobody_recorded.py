"""Right and wrong answers to the exercises on a stream nobody recorded; the pipeline's runs."""

from labkit.course.exercises import _recorded_views
from labkit.cuda.happens_before import races
from tests.course.answers import Answers

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


def checker(own=True, any_record=False, any_wait=False, future=False, only_freed=True, late=False):
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
                    if any_wait or stream == event[1]:
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
