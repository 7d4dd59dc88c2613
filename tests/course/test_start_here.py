from itertools import product
from math import prod

import torch

from labkit.course.checks import failing_cases, find
from labkit.course.exercise import Case
from labkit.course.exercises._reversal import BARRIER, RIGHT, TURN, Turned
from labkit.course.exercises.start_here import KINDS, REFUSED
from labkit.course.notebook_form import ROOT, read_notebook
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


def with_line(line, before):
    """The kernel with a line more, before the line that begins so."""
    return TURN.replace(f"    {before}", f"    {line}\n    {before}")


@answers.right("repair_the_race")
def repair_the_race():
    return with_line(BARRIER, "out[i]")


@answers.right("repair_the_race")
def repair_on_the_same_line():
    return TURN.replace("s[i] = x[i];", "s[i] = x[i]; __syncthreads();  // all have written")


@answers.wrong("repair_the_race", "returns the kernel as it was")
def returns_the_kernel():
    return TURN


@answers.wrong("repair_the_race", "waits before the write")
def waits_before_the_write():
    return with_line(BARRIER, "s[i] =")


@answers.wrong("repair_the_race", "waits after the read")
def waits_after_the_read():
    return TURN.replace("s[63 - i];", "s[63 - i];\n" + BARRIER)


@answers.wrong("repair_the_race", "waits for the own warp only")
def waits_for_the_warp():
    return with_line("__syncwarp();", "out[i]")


@answers.wrong("repair_the_race", "makes one warp wait")
def makes_one_warp_wait():
    return with_line(f"if (i < 32) {BARRIER}", "out[i]")


@answers.wrong("repair_the_race", "lets one thread do all the work")
def one_thread_works():
    return TURN.replace(
        "s[i] = x[i];", f"if (i == 0) for (int k = 0; k < 64; k++) s[k] = x[k];\n{BARRIER}"
    )


@answers.wrong("repair_the_race", "leaves shared memory out")
def leaves_shared_memory_out():
    return TURN.replace("out[i] = s[63 - i]", f"{BARRIER}\nout[i] = x[63 - i]")


@answers.wrong("repair_the_race", "waits twice")
def waits_twice():
    return with_line(f"{BARRIER}\n    {BARRIER}", "out[i]")


test_answers = answers.tests()


def test_the_chapter_shows_the_kernel_that_is_checked():
    cells = read_notebook(ROOT / "notebooks" / "0_start_here.ipynb")["cells"]
    assert sum(TURN.strip() in cell["source"] for cell in cells) == 2, "shown once, and in the stub"


def test_a_right_kernel_is_scored_over_many_orders():
    assert find("start_here.repair_the_race").score(repair_the_race).startswith("64 of 64 right")
    assert find("start_here.repair_the_race").score(returns_the_kernel).startswith("32 of 64")


def test_what_is_expected_and_what_came_read_alike():
    for evidence in failing_cases(find("start_here.repair_the_race"), returns_the_kernel, 11):
        assert evidence.expected in RIGHT.values() and evidence.got == repr(evidence.value)


def test_a_racing_kernel_is_played_back():
    exercise = find("start_here.repair_the_race")
    case = exercise.make(0, 0, 0)
    played = exercise.picture(case, Turned(TURN, "32 of 64 right"), RIGHT["numbers"])
    assert played.page == "findings" and played.runs[0]["plays"]
    fine = Turned(repair_the_race(), "")
    assert exercise.picture(case, fine, "") is None, "there is no race to play"


def test_views_of_any_item_size_are_drawn_over_their_bytes():
    views = [((2, 3), (3, 1), 1, 4), ((), (), 0, 8), ((0, 4), (1, 1), 2, 2), ((2,), (0,), 5, 1)]
    drawn = find("start_here.warm_up").picture(Case((views,)), 1, 2)
    assert [view["sizes"] for view in drawn.views] == [list(sizes) for sizes, *_ in views]
    assert len(drawn.storages) == 1
