"""Right and wrong answers to the exercises on a stream nobody recorded; the pipeline's runs."""

import inspect

import pytest

from labkit import cli, course
from labkit.course.checks import outcomes
from labkit.course.exercises import _recorded_views, _taken_buffers, _two_blocks
from labkit.course.exercises._recorded_views import View
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


# --- take_over


def planner(key="touched", own=False, early=False, results=True, larger=False, keep=False):
    """The right planner, or one with a mistake."""

    def take_over(steps):
        size = {name: nbytes for name, _, _, nbytes in steps}
        made = {name: stream for name, stream, _, _ in steps}
        touched = {name: {stream} for name, stream, _, _ in steps}
        last = {}
        for number, (_, stream, reads, _) in enumerate(steps):
            for one in reads:
                touched[one].add(stream)
                last[one] = last.get(one, number) if early else number
        free, plan = [], {}
        for number, (name, stream, reads, nbytes) in enumerate(steps):
            done = [one for one in dict.fromkeys(reads) if last[one] == number]
            if own:
                free += done
            fits = [
                one
                for one in free
                if (size[one] >= nbytes if larger else size[one] == nbytes)
                and {
                    "bytes": True,
                    "maker": made[one] == stream,
                    "reader": steps[last.get(one, 0)][1] == stream,
                    "touched": touched[one] == {stream},
                }[key]
            ]
            plan[name] = fits[-1] if fits and not keep else name
            if fits and not keep:
                free.remove(fits[-1])
            if not own:
                free += done
            if not results and name not in last:
                free.append(name)
        return plan

    return take_over


answers.right("take_over")(planner())
answers.wrong("take_over", "takes any buffer of the same bytes")(planner("bytes"))
answers.wrong("take_over", "asks for the stream that made it alone")(planner("maker"))
answers.wrong("take_over", "asks for the stream that read it last alone")(planner("reader"))
answers.wrong("take_over", "never takes a buffer over")(planner(keep=True))
answers.wrong("take_over", "takes what this step still reads")(planner(own=True))
answers.wrong("take_over", "takes what is read later")(planner(early=True))
answers.wrong("take_over", "takes larger buffers, too")(planner(larger=True))
answers.wrong("take_over", "takes the buffer of a result")(planner(results=False))


@answers.right("take_over")
def first_freed(steps):
    """Another order of choice: of those that fit, the one freed first."""
    touched = _taken_buffers.touched_by(steps)
    last = _taken_buffers.last_reads(steps)
    free, plan = {}, {}
    for number, (name, stream, reads, size) in enumerate(steps):
        waiting = free.setdefault((size, stream), [])
        plan[name] = waiting.pop(0) if waiting else name
        for one in dict.fromkeys(reads):
            if last[one] == number and touched[one] == {stream}:
                size_of = next(s[3] for s in steps if s[0] == one)
                free.setdefault((size_of, stream), []).append(one)
    return plan


@pytest.mark.parametrize(
    ("wrong", "stage", "said"),
    [
        (planner(early=True), "one stream", "up to the last step"),
        (planner(larger=True), "one stream", "same bytes"),
        (planner(keep=True), "one stream", "More buffers"),
        (planner("bytes"), "two streams", "let the stream decide"),
        (planner("maker"), "read by the other", "who else has read it"),
    ],
)
def test_mistakes_of_a_planner_get_their_hints(wrong, stage, said):
    exercise = answers.exercises["take_over"]
    assert next(one.name for one in outcomes(exercise, wrong, 7) if one.failures) == stage
    assert said in first_hint(exercise, wrong)


# --- two_blocks


def sender(
    blocks=2,
    waits=True,
    last=True,
    event=True,
    frees=True,
    newest=False,
    host=False,
    host_frees=False,
    read_on="working",
):
    """The right sender, or one with a mistake."""

    def send(gpu, frames):
        held = []

        def give_back(wait):
            block, done = held.pop(0)
            if host_frees:
                gpu.synchronize()
            elif wait:
                gpu.wait("copying", done)
            if frees:
                gpu.free(block)

        for frame in range(frames):
            if len(held) == blocks:
                give_back(waits)
            block = gpu.malloc()
            gpu.copy(frame, block, "copying")
            if event:
                gpu.wait(read_on, gpu.event("copying"))
            gpu.read(block, read_on)
            held.append((block, gpu.event(read_on)))
            if newest:
                gpu.wait("copying", held[-1][1])
            if host:
                gpu.synchronize()
        while held:
            give_back(last)

    return send


answers.right("two_blocks")(sender())
answers.right("two_blocks")(_two_blocks.finished_send)
answers.wrong("two_blocks", "synchronises the device")(sender(host=True))
answers.wrong("two_blocks", "waits on the host before each free")(sender(host_frees=True))
answers.wrong("two_blocks", "one stream for all")(sender(read_on="copying"))
answers.wrong("two_blocks", "keeps every tensor alive")(sender(frees=False))
answers.wrong("two_blocks", "waits for the newest read before it goes on")(sender(newest=True))
answers.wrong("two_blocks", "waits for no read, as some seeds forgive")(sender(waits=False))
answers.wrong("two_blocks", "holds three blocks")(sender(blocks=3))
answers.wrong("two_blocks", "frees the last blocks while they are read")(sender(last=False))
answers.wrong("two_blocks", "reads before the copy")(sender(event=False))


@pytest.mark.parametrize(
    ("wrong", "stage", "said"),
    [
        (sender(host=True), "two frames", "The host waits"),
        (sender(host_frees=True), "three frames", "The host waits"),
        (sender(newest=True), "two frames", "take turns"),
        (sender(frees=False), "two frames", "never freed"),
        (sender(blocks=3), "three frames", "the older one"),
        (sender(waits=False), "three frames", "behind the read"),
        (sender(event=False), "two frames", "behind its own copy"),
    ],
)
def test_mistakes_of_a_sender_get_their_hints(wrong, stage, said):
    exercise = answers.exercises["two_blocks"]
    assert next(one.name for one in outcomes(exercise, wrong, 7) if one.failures) == stage
    assert said in first_hint(exercise, wrong)


def test_at_256_seeds_every_frame_is_exact_and_both_streams_stay_busy():
    found = [_two_blocks.sent(sender(), 4, seed) for seed in range(256)]
    assert {tuple(one.read) for one in found} == {(0, 1, 2, 3)}
    assert {(one.most, one.left) for one in found} == {(2, 0)}
    assert {_two_blocks.ends(one, 1, 1) for one in found} == {5}


def test_what_waits_for_each_read_holds_one_block_and_saves_no_time():
    found = _two_blocks.sent(sender(blocks=1), 8)
    assert (found.read, found.most) == ([*range(8)], 1)
    assert _two_blocks.ends(found, 1, 1) == 16


def test_a_sender_that_fails_leaves_the_device_as_it_was():
    def gives_up(gpu, frames):
        gpu.copy(0, gpu.malloc(), "copying")
        raise ValueError("no more")

    for seed in range(64):  # a block that is left would soon fill the device
        with pytest.raises(ValueError, match="no more"):
            _two_blocks.sent(gives_up, 2, seed)
    assert _two_blocks.sent(sender(), 2).read == [0, 1]


# --- regression_test

BLOCKS = {4096: 2048, 6144: 512}
SHIFTED, EMPTY = View(5120, 4096, 1024), View(0, 4096, 0)
FOREIGN = View(9000, 8192, 64)


@answers.right("regression_test")
def every_view(find_block):
    assert find_block(BLOCKS, SHIFTED) == 4096
    assert find_block(BLOCKS, EMPTY) == 4096
    assert find_block(BLOCKS, FOREIGN) is None


@answers.wrong("regression_test", "also passes with the look-up of 2019")
def whole_alone(find_block):
    assert find_block(BLOCKS, View(4096, 4096, 1024)) == 4096


@answers.wrong("regression_test", "fails for the look-up of today")
def empty_is_nobodys(find_block):
    assert find_block(BLOCKS, EMPTY) is None


@answers.wrong("regression_test", "tests the shifted view alone")
def shifted_alone(find_block):
    assert find_block(BLOCKS, SHIFTED) == 4096


@answers.wrong("regression_test", "forgets empty views")
def no_empty(find_block):
    assert find_block(BLOCKS, SHIFTED) == 4096
    assert find_block(BLOCKS, FOREIGN) is None


@answers.wrong("regression_test", "forgets memory of somebody else")
def no_foreign(find_block):
    assert find_block(BLOCKS, SHIFTED) == 4096
    assert find_block(BLOCKS, EMPTY) == 4096


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


@pytest.mark.parametrize("look_up", [by_address, by_range])
def test_conformance_is_red_by_address_in_every_group(look_up):
    found = course.conformance("allocator", _recorded_views.through_views(look_up))
    assert len(found.red) == len(found.comparisons)
    assert f"and {len(found.red) - 5} more" in repr(found)


def test_conformance_is_green_by_storage_in_a_file_of_its_own(tmp_path):
    file = tmp_path / "look_up.py"
    lines = [
        "from labkit.course.exercises._recorded_views import through_views",
        inspect.getsource(find_block).partition("\n")[2],
        "CachingAllocator = through_views(find_block)",
    ]
    file.write_text("\n".join(lines))
    assert cli.main(["conformance", "allocator", "--system", str(file)]) == 0
