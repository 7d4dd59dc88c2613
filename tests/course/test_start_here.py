import pytest
import torch

from labkit.course.checking.verdicts import CheckFailed
from labkit.course.checks import check, failing_cases, find
from labkit.course.exercise import Case, Evidence
from labkit.course.exercises._reversal import BARRIER, RIGHT, TURN, Turned
from labkit.course.exercises.start_here import KINDS, REFUSED
from labkit.course.notebook_form import ROOT, read_notebook
from tests.course.answers import CATCHES, Answers, catches

answers = Answers("start_here")


def named(view):
    (rows, columns), (down, right), start = view
    return [start + i * down + j * right for i in range(rows) for j in range(columns)]


@answers.right("places")
def places(views):
    found = set()
    for view in views:
        found.update(named(view))
    return len(found)


@answers.right("places")
def places_of_torch(views):
    memory = torch.arange(10_000)
    return len({n for view in views for n in memory.as_strided(*view).flatten().tolist()})


@answers.wrong("places", "adds up the sizes")
def adds_up_the_sizes(views):
    return sum(rows * columns for (rows, columns), *_ in views)


@answers.wrong("places", "takes last minus first")
def takes_the_span(views):
    every = [place for view in views for place in named(view)]
    return max(every) - min(every) + 1 if every else 0


@answers.wrong("places", "forgets where a view starts")
def forgets_the_start(views):
    return places([(sizes, strides, 0) for sizes, strides, _ in views])


@answers.wrong("places", "exchanges the strides")
def exchanges_the_strides(views):
    return places([(sizes, strides[::-1], start) for sizes, strides, start in views])


@answers.wrong("places", "counts a view without rows")
def counts_a_view_without_rows(views):
    return places([((max(rows, 1), columns), *rest) for (rows, columns), *rest in views])


@answers.wrong("places", "returns the size of the storage")
def all_of_the_memory(views):
    return 1 + max((place for view in views for place in named(view)), default=-1)


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


def test_views_are_drawn_over_the_memory_they_share():
    views = [((2, 3), (3, 1), 1), ((0, 4), (1, 1), 2), ((1, 2), (0, 0), 5)]
    drawn = find("start_here.places").picture(Case((views,)), 1, 2)
    assert [view["sizes"] for view in drawn.views] == [list(sizes) for sizes, *_ in views]
    assert len(drawn.storages) == 1 and drawn.simple


def test_the_smallest_case_is_two_rows_that_share_a_number():
    for seed in range(5):
        with pytest.raises(CheckFailed) as failed:
            check("start_here.places", adds_up_the_sizes, seed=seed, record=False)
        (one, two) = failed.value.failures[0].inputs[0]
        assert one[0] == two[0] == (1, 2) and min(one[2], two[2]) == 0


def lays_a_whole_grid(views):
    return len({s + i * m + j for (n, m), _, s in views for i in range(n) for j in range(m)})


@pytest.mark.parametrize(
    ("answer", "views", "said"),
    [
        (forgets_the_start, [((1, 2), (2, 1), 0), ((1, 2), (2, 1), 5)], "begins at place 0"),
        (exchanges_the_strides, [((2, 2), (5, 1), 0), ((1, 2), (2, 1), 1)], "strides exchanged"),
        (adds_up_the_sizes, [((1, 2), (2, 1), 0), ((1, 2), (2, 1), 1)], "named twice"),
        (counts_a_view_without_rows, [((0, 2), (2, 1), 0)], "0 rows"),
        (takes_the_span, [((1, 2), (2, 2), 1)], "every place up to the last"),
        (all_of_the_memory, [((2, 2), (5, 1), 1)], "every place up to the last"),
        (lays_a_whole_grid, [((2, 2), (0, 1), 0), ((1, 2), (2, 1), 1)], "like a whole grid"),
    ],
)
def test_the_hint_is_about_the_mistake_that_was_made(answer, views, said):
    exercise = find("start_here.places")
    evidence = Evidence(
        kind="value", input=repr(views), property="", expected="", got=str(answer(views)),
        printed="", number=1, inputs=(views,), value=answer(views), right=places(views),
    )  # fmt: skip
    first = next(hint for hint in map(exercise.hint, range(7)) if hint.fits(evidence))
    assert said in first.about(evidence)
