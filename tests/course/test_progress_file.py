import json
import multiprocessing
import os
import warnings

import pytest

from labkit.course import progress_file
from labkit.course.cards import progress
from labkit.course.checking.digest import digest
from labkit.course.command import run
from labkit.course.exercise import Evidence, Hint
from labkit.course.progress_file import Attempt, record_attempt, record_give_up, record_pass
from tests.course import toys

EVIDENCE = Evidence("value", "[1]", "the value is right", "1", "2", "", 4, ([1],), 2, 1)


@pytest.fixture(autouse=True)
def file(monkeypatch, tmp_path):
    monkeypatch.setattr(progress_file, "_in_memory", {})
    monkeypatch.setattr(progress_file, "_said", set())
    path = tmp_path / "deep" / "progress.json"
    monkeypatch.setenv("LABKIT_PROGRESS", str(path))
    return path


def attempt(code, evidence=EVIDENCE, exercise=toys.add_up):
    return record_attempt(exercise, code, Attempt(7, [evidence.rows()]), evidence)


def test_progress_is_one_readable_file(file):
    record_pass("toys.add_up")
    attempt("a")
    kept = json.loads(file.read_text(encoding="utf-8"))["exercises"]["toys.add_up"]
    assert kept["passed"] and kept["attempts"] == 1
    assert kept["history"] == [{"seed": 7, "failures": [EVIDENCE.rows()]}]
    assert [p.name for p in file.parent.iterdir() if not p.name.startswith(".")] == [file.name]


def test_a_hint_per_changed_answer_and_none_for_the_same():
    assert [attempt("a"), attempt("a"), attempt("b"), attempt("a"), attempt("c"), attempt("d")] == [
        "one", "", "two", "", "three", "",
    ]  # fmt: skip
    assert progress_file.state_of("toys.add_up").attempts == 6


def test_an_answer_that_changes_its_input_is_told_that_first():
    from dataclasses import replace

    changed = replace(EVIDENCE, kind="mutated", got="input 1 was changed", right=None)
    hints = (
        Hint("about the value", when=lambda e: e.value != e.right),
        Hint("about the stage", stage="any"),
        "general",
    )
    exercise = replace(toys.add_up, hints=hints)
    assert attempt("a", replace(changed, stage="any"), exercise) == progress_file.CHANGED
    own = Hint("sort a copy", when=lambda e: e.kind == "mutated")
    assert attempt("b", changed, replace(exercise, hints=(*hints, own))) == "sort a copy"
    assert attempt("c", EVIDENCE, exercise) == "about the value"


def test_the_solution_opens_one_attempt_after_the_last_hint_or_on_request():
    for code in "abc":
        attempt(code)
    assert not progress_file.state_of("toys.add_up").solution_open(3)
    attempt("d")
    assert progress_file.state_of("toys.add_up").solution_open(3)
    record_give_up("toys.first")
    assert progress_file.state_of("toys.first").solution_open(3)
    assert progress_file.state_of("toys.first").status == "gave up"


def test_a_banned_call_earns_nothing():
    from dataclasses import replace

    assert attempt("a", replace(EVIDENCE, kind="banned")) == ""
    assert progress_file.state_of("toys.add_up").digests == []


def test_the_hint_that_fits_the_evidence_comes_first_and_names_it():
    from dataclasses import replace

    hints = (
        Hint("general"),
        Hint("broken", when=lambda evidence: evidence.value.nothing),
        Hint("case {number}: {input} gave {got}", when=lambda evidence: evidence.value > 1),
    )
    exercise = replace(toys.add_up, hints=hints)
    assert attempt("a", exercise=exercise) == "case 4: [1] gave 2"
    said = "case 4: [1] gave 2"
    assert attempt("a", exercise=exercise) == said  # the same answer: again, and nothing new
    # a general hint alone would send a reader away from this mistake
    assert attempt("b", exercise=exercise) == f"{said} In general: general"
    assert attempt("c", exercise=exercise) == said  # the others do not fit
    assert attempt("d", replace(EVIDENCE, value=0), exercise=exercise) == ""
    assert [index for index, _ in progress_file.state_of(exercise.id).hints] == [2, 0]


def test_reset_forgets_one_or_all(file, capsys):
    record_pass("toys.add_up")
    record_pass("toys.first")
    progress_file.reset("toys.add_up")
    assert not progress_file.state_of("toys.add_up").passed
    assert progress_file.state_of("toys.first").passed

    class Arguments:
        action, exercise = "reset", None

    assert run(Arguments) == 0 and "all progress" in capsys.readouterr().out
    assert not progress_file.state_of("toys.first").passed


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"[]", b"\xff\xfe\x00", b'{"version": 9, "exercises": {}}',
        b'{"version": 1, "exercises": {"toys.add_up": 3}}',
        b'{"version": 1, "exercises": {"toys.add_up": {"attempts": "many"}}}',
        b'{"version": 1, "exercises": {"toys.add_up": {"hints": [3]}}}',
        b'{"version": 1, "exercises": {"toys.add_up": {"history": [{}]}}}',
        b'{"version": 1, "exercises": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=lambda damage: repr(damage[:60]),
)  # fmt: skip
def test_a_damaged_file_is_moved_aside_and_said_once(file, damage):
    file.parent.mkdir()
    file.write_bytes(damage)
    with pytest.warns(UserWarning, match="starting afresh"):
        record_pass("toys.add_up")
    assert progress_file.state_of("toys.add_up").passed
    assert file.with_name("progress.json.damaged-1").read_bytes() == damage
    repr(progress())


def test_half_a_surrogate_pair_in_the_file_is_kept_and_written_back(file):
    kept = {"attempts": 1, "history": [{"failures": [["\ud800"]]}]}
    file.parent.mkdir()
    file.write_text(json.dumps({"version": 1, "exercises": {"toys.add_up": kept}}))
    record_pass("toys.first")
    assert progress_file.state_of("toys.first").passed
    assert progress_file.state_of("toys.add_up").history == kept["history"]
    assert [each.name for each in file.parent.glob(".progress-*")] == []


def test_keys_of_a_later_version_do_not_hurt(file):
    file.parent.mkdir()
    later = {"version": 1, "exercises": {"toys.add_up": {"passed": True, "stars": 5}}}
    file.write_text(json.dumps(later), encoding="utf-8")
    assert progress_file.state_of("toys.add_up").passed


def test_a_disk_that_cannot_be_written_leaves_progress_in_memory(file, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left"):
        record_pass("toys.add_up")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record_pass("toys.first")
    assert progress_file.state_of("toys.add_up").passed
    assert progress_file.state_of("toys.first").passed
    assert not file.exists()
    assert [p for p in file.parent.iterdir() if p.name.startswith(".progress-")] == []


def test_a_folder_that_cannot_be_made_leaves_progress_in_memory(file, monkeypatch):
    file.parent.write_text("a file where the folder should be", encoding="utf-8")
    with pytest.warns(UserWarning) as said:
        record_pass("toys.add_up")
    assert "kept until this kernel ends" in str(said[-1].message)
    assert progress_file.state_of("toys.add_up").passed


def test_off_keeps_progress_in_memory(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", "off")
    record_pass("toys.add_up")
    assert progress_file.state_of("toys.add_up").passed
    assert progress_file.path() is None and list(tmp_path.iterdir()) == []


def test_the_default_place_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.delenv("LABKIT_PROGRESS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert progress_file.path() == tmp_path / "labkit" / "progress.json"


def many_attempts(start):
    for number in range(start, start + 20):
        attempt(f"code {number}")


def test_two_notebooks_at_once_lose_nothing(file):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=many_attempts, args=(start,)) for start in (0, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert progress_file.state_of("toys.add_up").attempts == 40


def test_a_digest_is_about_what_the_code_does():
    def one(x):
        """Words."""
        return x + 1

    def same(x):
        # a comment, another docstring, another name
        """Other words."""

        return x + 1

    def other(x):
        """Words."""
        return x + 2

    assert digest(one) == digest(same) != digest(other)


def make(step):
    def answer(x):
        return x + step

    return answer


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("EDGES = [1, 512]", "EDGES = [1, 512, 513]"),
        ("EDGES = {'a': lambda x: x}", "EDGES = {'a': lambda x: -x}"),
        ("EDGES = list; LIMIT = 3", "EDGES = list; LIMIT = 4"),
        ("EDGES = list\ndef LIMIT(): return 3", "EDGES = list\ndef LIMIT(): return 4"),
    ],
)
def test_a_table_that_the_answer_names_belongs_to_it(before, after):
    """As `EDGES` and `MENDED` of `find` do: an exercise may ask for lines of them alone."""
    code = "def answer(x):\n    return [edge for edge in EDGES if edge > LIMIT]"
    spaces = [{"__name__": "nb"}, {"__name__": "nb"}, {"__name__": "nb"}]
    for space, table in zip(spaces, (before, before, after), strict=True):
        exec(f"{table}\n{code}", space)
    one, same, other = (digest(space["answer"]) for space in spaces)
    assert one == same != other


def test_a_digest_follows_closures_helpers_and_classes():
    assert digest(make(1)) == digest(make(1)) != digest(make(2))
    space = {}
    exec("def helper(x): return x\ndef answer(x): return helper(x)", space)
    before = digest(space["answer"])
    exec("def helper(x): return -x", space)
    assert digest(space["answer"]) != before
    one = type("A", (), {"f": lambda self: 1})
    other = type("A", (), {"f": lambda self: 2})
    assert digest(one) != digest(other)
    assert digest({"a": make(1)}) != digest({"a": make(2)})


def test_a_table_that_holds_itself_has_a_digest():
    namespace = {}
    exec("table = []\ntable += [table] * 1000\ndef answer(): return table", namespace)
    assert len(digest(namespace["answer"])) == 12
