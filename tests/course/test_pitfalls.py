"""Right and wrong answers to the exercises on sick programs; what the chapter's patients have."""

import pytest

from labkit.course.cases import memory
from labkit.course.cases.queues import Gpu, freed_early, sharpened
from labkit.course.cases.recorder import record
from tests.course.answers import Answers, first_hint

answers = Answers("pitfalls")
MIB = memory.MIB


# --- left_over


@answers.right("left_over")
def left_over(events):
    left = [0] * (1 + max((event.step for event in events), default=-1))
    for event in events:
        if event.step >= 0 and event.kind in ("alloc", "free"):
            left[event.step] += event.size if event.kind == "alloc" else -event.size
    return left


@answers.right("left_over")
def by_step(events):
    last = max([-1, *(step for _, step, *_ in events)])
    sign = {"alloc": 1, "free": -1}
    return [
        sum(sign.get(kind, 0) * size for kind, at, _, _, size in events if at == step)
        for step in range(last + 1)
    ]


@answers.wrong("left_over", "counts what came before the first step")
def wraps(events):
    left = [0] * (1 + max((event.step for event in events), default=0))
    for event in events:
        if event.kind in ("alloc", "free"):
            left[event.step] += event.size if event.kind == "alloc" else -event.size
    return left


def steps_of(last):
    """The right answer, but for the number of its last step."""

    def answer(events):
        left = [0] * (1 + last(events))
        for event in events:
            if event.step >= 0 and event.kind in ("alloc", "free"):
                left[event.step] += event.size if event.kind == "alloc" else -event.size
        return left

    return answer


for why, last in {
    "fails without events": lambda events: max(event.step for event in events),
    "says 0 without events": lambda events: max((event.step for event in events), default=0),
    "takes the last event's step for the last step": lambda events: (
        events[-1].step if events else -1
    ),
}.items():
    answers.wrong("left_over", why)(steps_of(last))


@answers.wrong("left_over", "ends where nothing is taken any more")
def short(events):
    return left_over([event for event in events if event.kind in ("alloc", "free")])


@answers.wrong("left_over", "counts frees of its own blocks only")
def own_blocks(events):
    known = {event.address for event in events if event.kind == "alloc"}
    left = [0] * len(left_over(events))
    for event in events:
        if event.step >= 0 and event.address in known and event.kind in ("alloc", "free"):
            left[event.step] += event.size if event.kind == "alloc" else -event.size
    return left


@answers.wrong("left_over", "knows 64 steps")
def steps_64(events):
    return left_over([event for event in events if event.step < 64])


@answers.wrong("left_over", "empties the list of events")
def takes_away(events):
    left = [0] * (1 + max((event.step for event in events), default=-1))
    while events:
        event = events.pop()
        if event.step >= 0 and event.kind in ("alloc", "free"):
            left[event.step] += event.size if event.kind == "alloc" else -event.size
    return left


@answers.wrong("left_over", "counts the segments too")
def all_kinds(events):
    left = [0] * (1 + max((event.step for event in events), default=-1))
    for event in events:
        if event.step >= 0:
            left[event.step] += -event.size if event.kind == "free" else event.size
    return left


@answers.wrong("left_over", "leaves out steps without events")
def gaps(events):
    found = {}
    for event in events:
        if event.step >= 0:
            sign = {"alloc": 1, "free": -1}.get(event.kind, 0)
            found[event.step] = found.get(event.step, 0) + sign * event.size
    return [found[step] for step in sorted(found)]


@answers.wrong("left_over", "takes a free from the step of its alloc")
def by_birth(events):
    left, born = [0] * (1 + max((event.step for event in events), default=-1)), {}
    for event in events:
        if event.kind == "alloc":
            born[event.address] = event.step
        step = born.get(event.address, event.step) if event.kind == "free" else event.step
        if step >= 0 and event.kind in ("alloc", "free"):
            left[step] += event.size if event.kind == "alloc" else -event.size
    return left


@answers.wrong("left_over", "counts the running sum")
def running(events):
    left = by_step(events)
    return [sum(left[: at + 1]) for at in range(len(left))]


# --- largest_request


@answers.right("largest_request")
def largest_request(segments, room):
    best = 0
    for size, free in segments:
        if free == [size]:
            room += size
        best = max([best, *free])
    return max(best, room)


@answers.wrong("largest_request", "adds up all holes")
def all_holes(segments, room):
    return room + sum(sum(free) for _, free in segments)


@answers.wrong("largest_request", "forgets the device")
def no_device(segments, room):
    return max((one for _, free in segments for one in free), default=0)


@answers.wrong("largest_request", "lets no segment go back")
def keeps_segments(segments, room):
    return max([room, *(one for _, free in segments for one in free)])


@answers.wrong("largest_request", "adds a hole to the device's room")
def glued(segments, room):
    return room + max((one for _, free in segments for one in free), default=0)


@answers.wrong("largest_request", "forgets the segments when the device is full")
def full_device(segments, room):
    return largest_request(segments, room) if room else no_device(segments, room)


@answers.wrong("largest_request", "fails without segments")
def needs_one(segments, room):
    back = sum(size for size, free in segments if free == [size])
    return max(room + back, max(one for _, free in segments for one in free))


@answers.wrong("largest_request", "grants a byte where there is none")
def a_byte(segments, room):
    return max(1, largest_request(segments, room))


# --- broken_stream_program


def program(wait=True, record=True, free="at once", event="of the copy", lanes=None, **odd):
    """The right program, or one with a mistake."""

    def process(gpu, frames, copy, work):
        copy, work = lanes or (copy, work)
        reader = copy if odd.get("wrong_stream") else work
        results, blocks = [], []
        for frame in frames:
            early = gpu.record(copy) if event == "before the copy" else None
            block = gpu.new(copy)
            gpu.upload(copy, frame, block)
            if wait:
                gpu.wait(work, gpu.record(work) if event == "of the work" else
                         early or gpu.record(copy))  # fmt: skip
            result = gpu.new(work)
            gpu.sharpen(work, block, result)
            if odd.get("synchronize"):
                gpu.synchronize()
            if odd.get("backwards"):
                gpu.wait(copy, gpu.record(work))
            if record:
                gpu.record_stream(block, reader)
            if free == "at once":
                gpu.free(block)
            results.append(result)
            blocks.append(block)
        if free == "at the end":
            gpu.wait(copy, gpu.record(work))
            for block in blocks:
                gpu.free(block)
        return results

    return process


answers.right("broken_stream_program")(program())


@answers.right("broken_stream_program")
def two_buffers(gpu, frames, copy, work):
    results, used = [], []
    for frame in frames:
        if len(used) == 2:
            block, event = used.pop(0)
            gpu.wait(copy, event)
            gpu.free(block)
        block = gpu.new(copy)
        gpu.upload(copy, frame, block)
        gpu.wait(work, gpu.record(copy))
        results.append(gpu.new(work))
        gpu.sharpen(work, block, results[-1])
        used.append((block, gpu.record(work)))
    for block, event in used:
        gpu.wait(copy, event)
        gpu.free(block)
    return results


SHUFFLED = (
    "is right in forward thread and queue order only and fails in a reversed or shuffled order"
)
wrong = {
    "is the program as it was": program(wait=False, record=False),
    "only waits": program(record=False),
    "only records the stream": program(wait=False),
    "synchronises everything": program(record=False, synchronize=True),
    "waits on the wrong event": program(event="before the copy"),
    "records the stream that needs no record": program(wrong_stream=True),
    "keeps all blocks until the end": program(record=False, free="at the end"),
    "never frees": program(free="never"),
    "makes the uploads wait for the work before": program(record=False, backwards=True),
    "knows the names of its streams": program(lanes=("copy", "work")),
    SHUFFLED: program(event="of the work"),
}
for why, answer in wrong.items():
    answers.wrong("broken_stream_program", why)(answer)


def careless(gpu, frames, copy, work, careful):
    """The right program, without a record for the frames that `careful` does not take."""
    results = []
    for at, frame in enumerate(frames):
        results += program(record=careful(at))(gpu, [frame], copy, work)
    return results


@answers.right("broken_stream_program")
def one_by_one(gpu, frames, copy, work):
    return careless(gpu, frames, copy, work, lambda at: True)


@answers.wrong("broken_stream_program", "repairs the first frames")
def first_frames(gpu, frames, copy, work):
    return careless(gpu, frames, copy, work, lambda at: at < 8)


@answers.wrong("broken_stream_program", "records no stream for the last frame")
def last_frame(gpu, frames, copy, work):
    return careless(gpu, frames, copy, work, lambda at: at + 1 < len(frames))


@answers.wrong("broken_stream_program", "works on equal frames once")
def once(gpu, frames, copy, work):
    return program()(gpu, list(dict.fromkeys(frames)), copy, work)


@answers.wrong("broken_stream_program", "empties the list")
def no_frames(gpu, frames, copy, work):
    results = program()(gpu, frames, copy, work)
    frames.clear()
    return results


@answers.wrong("broken_stream_program", "one stream for all")
def one_stream(gpu, frames, copy, work):
    return program(wait=False, record=False)(gpu, frames, copy, copy)


@answers.wrong("broken_stream_program", "puts the answer in without the work")
def no_work(gpu, frames, copy, work):
    results = [gpu.new(work) for _ in frames]
    for frame, result in zip(frames, results, strict=True):
        gpu.upload(work, sharpened(frame), result)
    return results


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("is the program as it was", "tells the work that its frame is there"),
        ("only waits", "Who still reads it then"),
        ("synchronises everything", "does the host wait"),
        ("keeps all blocks until the end", "Who holds it"),
    ],
)
def test_mistakes_in_a_stream_program_get_their_hints(mistake, said):
    assert said in first_hint(answers.exercises["broken_stream_program"], wrong[mistake])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("mistake", "said"), [(gaps, "has its place"), (short, "has its place")])
def test_mistakes_in_a_list_of_steps_get_their_hints(mistake, said, seed):
    assert said in first_hint(answers.exercises["left_over"], mistake, seed)


def test_no_hint_about_streams_repeats_all_that_was_found():
    exercise = answers.exercises["broken_stream_program"]
    assert not any("{got}" in exercise.hint(n).text for n in range(len(exercise.hints)))


test_answers = answers.tests()


# --- the patients


def test_an_early_free_is_wrong_in_some_paces_and_the_repair_in_none():
    def wrongs(process):
        found = 0
        for pace in range(32):
            gpu = Gpu(pace)
            blocks = process(gpu, [5, 6, 7], "copy", "work")
            found += [gpu.read(block) for block in blocks] != [sharpened(n) for n in (5, 6, 7)]
        return found

    assert 0 < wrongs(freed_early) < 32
    assert wrongs(program()) == 0


def test_a_lazy_gpu_keeps_a_recorded_block_and_an_eager_one_gives_it_back():
    most = {}
    for pace in ("lazy", "eager"):
        gpu = Gpu(pace)
        program()(gpu, [1, 2, 3, 4], "copy", "work")
        most[pace] = gpu.most
    assert most == {"lazy": 8, "eager": 5}


def test_a_list_of_losses_keeps_what_each_step_made():
    events = record(memory.LOSSES).events
    assert len(set(left_over(events)[1:])) == 1 and left_over(events)[1] > 2 * MIB
    cured = memory.LOSSES.replace("score(batch))", "score(batch).item())")
    assert not any(left_over(record(cured).events)[1:])


def test_pieces_are_enough_together_and_too_small_alone():
    chart = memory.patient("B")
    assert "48.00 MiB is reserved by PyTorch but unallocated" in chart.error
    refused = chart.events[-1]
    segments = [
        (one["total_size"], [b["size"] for b in one["blocks"] if b["state"] == "inactive"])
        for one in chart.snapshot["segments"]
    ]
    assert refused.kind == "out of memory" and refused.size == 40 * MIB
    fits = largest_request(segments, refused.room)
    assert fits == 36 * MIB
    assert not record(memory.PIECES.replace("40 *", "36 *"), 96 * MIB).error
    assert record(memory.PIECES.replace("40 *", "37 *"), 96 * MIB).error


def test_each_product_of_the_chain_is_followed_by_a_copy():
    names = [op.name for op in memory.patient("D").ops if op.made]
    assert names == ["mm", "clone"] * 4
