"""Checks in stages: what is done counts, what is open is not wrong, and pictures of what is."""

import json

import pytest

from labkit import course
from labkit.course import progress_file
from labkit.course.cards import card, progress
from labkit.course.checking.stages import stage_exercises
from labkit.course.checks import CheckFailed, NotAttempted, outcomes, picture_of
from labkit.course.exercise import Exercise, Hint, Stage
from labkit.course.exercises.strides import view_machine
from labkit.course.progress_file import state_of
from tests.course import test_strides as machine
from tests.course.toys import numbers, total


def negative(values):
    return any(value < 0 for value in values)


def toy(**more):
    given = {
        "id": "toys.staged",
        "case": numbers,
        "expected": total,
        "hints": ("general", Hint("about the negative ones", stage="negative"), "last"),
        "must_fail": ("a constant",),
        "cases": 40,
        "stages": (
            Stage("empty", only=lambda values: not values),
            Stage("long", case=lambda rng, size: ([1] * (size + 5),), cases=7),
            Stage("negative", only=negative),
            Stage("together"),
        ),
    }
    return Exercise(**given | more)


def states(answer, exercise=None):
    return [outcome.state for outcome in outcomes(exercise or toy(), answer, seed=5)]


def unfinished(*only):
    """A view machine that knows these operations and has yet to be told the others."""

    def answer(meta, name, arguments, length):
        if name not in only:
            raise NotImplementedError
        return machine.view_machine(meta, name, arguments, length)

    return answer


@pytest.fixture
def kept(monkeypatch, tmp_path):
    monkeypatch.setattr(progress_file, "_in_memory", {})
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path / "progress.json"


def test_every_stage_asks_its_own_cases():
    parts = dict(stage_exercises(toy()))
    assert list(parts) == ["empty", "long", "negative", "together"]
    for name, fits in (
        ("empty", lambda values: values == []),
        ("long", lambda values: len(values) >= 5 and set(values) == {1}),
        ("negative", negative),
    ):
        made = [parts[name].make(3, number, number % 9).inputs[0] for number in range(30)]
        assert all(map(fits, made)), name
    assert parts["long"].cases == 7 and parts["together"].cases == 40


def test_a_small_failure_found_by_a_later_stage_belongs_to_the_stage_that_takes_it():
    def forgets_the_six(values):
        return sum(value for value in values if value != 6)

    exercise = toy(
        smaller=lambda values: [(values[:at] + values[at + 1 :],) for at in range(len(values))],
        stages=(
            Stage("one", only=lambda values: len(values) == 1, cases=1),
            Stage("together"),
        ),
        hints=("general",),
    )
    one, together = outcomes(exercise, forgets_the_six, seed=5)
    assert one.state == together.state == "wrong"
    assert one.failures[0].inputs == ([6],) and one.failures[0].stage == "one"
    assert together.failures[0].stage == "together"


def test_a_stage_that_is_not_written_hides_nothing():
    def half(values):
        if negative(values):
            raise NotImplementedError
        return sum(values)

    def half_and_wrong(values):
        return half(values) + (len(values) > 4)

    assert states(sum) == ["done"] * 4
    assert states(half) == ["done", "done", "open", "open"]
    assert states(half_and_wrong) == ["done", "wrong", "open", "open"]
    assert states(lambda values: 1 / 0) == ["wrong"] * 4
    forbidden = toy(banned=("math.fsum",))
    assert states(lambda values: __import__("math").fsum(values), forbidden) == [
        "wrong", "open", "open", "open",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 5, 11])
def test_the_first_operations_of_the_view_machine_are_seen_at_every_seed(seed):
    row = {o.name: o.state for o in outcomes(view_machine, unfinished("transpose", "view"), seed)}
    assert {name for name, state in row.items() if state == "done"} == {"transpose", "view"}
    assert set(row.values()) == {"done", "open"}, "nothing is called wrong"


def test_progress_counts_stages(kept):
    answer = unfinished("transpose", "select", "expand")
    card = course.check("strides.view_machine", answer, seed=1)
    assert repr(card) == "ExerciseCard(strides.view_machine: your turn, boss, about 35 minutes)"
    assert card.stages[0] == ["transpose", "done"] and ["view", "open"] in card.stages
    assert "view_machine (3 of 11 stages)" in repr(progress())
    assert state_of("strides.view_machine").attempts == 0, "no attempt is counted"
    course.check("strides.view_machine", unfinished(), seed=1)
    assert state_of("strides.view_machine").stages_done == 0, "the file follows the answer"


def test_nothing_is_written_for_a_stub_without_a_stage(kept):
    course.check("strides.view_machine", unfinished())
    assert not kept.exists()


def test_a_wrong_stage_names_itself_and_its_own_hints(kept):
    wrong = machine.with_rule("expand", machine.expand_keeps)
    with pytest.raises(CheckFailed) as failed:
        course.check("strides.view_machine", wrong, seed=7)
    text = str(failed.value)
    assert text.startswith("strides.view_machine: not yet (expand).")
    assert "transpose ✓  select ✓" in text and "expand ✗" in text and "view ✓" in text
    assert "gets stride 0" in failed.value.hint
    assert {stage for stage, state in failed.value.stages if state == "wrong"} == {
        "expand", "together",
    }  # fmt: skip


def test_a_hint_about_another_stage_is_never_given():
    exercise = toy()
    about_others = [
        evidence for o in outcomes(exercise, lambda values: -1, seed=5) for evidence in o.failures
    ]
    for evidence in about_others:
        assert exercise.hint(1).may_help(evidence) == (evidence.stage == "negative")
        assert exercise.hint(1).fits(evidence) == (evidence.stage == "negative")


def test_an_unfinished_answer_is_an_error_where_answers_should_be_there(monkeypatch):
    monkeypatch.setenv("LABKIT_UNFINISHED", "fails")
    with pytest.raises(NotAttempted, match="your turn"):
        course.check("strides.view_machine", unfinished("select"), record=False, seed=3)


def test_the_picture_of_a_failing_case_holds_both_views():
    wrong = machine.with_rule(
        "select",
        lambda *given: (*machine.select(*given)[:2], given[2]),  # the offset stays
    )
    evidence = next(o.failures[0] for o in outcomes(view_machine, wrong, 7) if o.failures)
    drawn = picture_of(view_machine, evidence)
    assert [view["name"] for view in drawn.views] == ["yours", "expected"]
    assert drawn.layout_of("expected") != drawn.layout_of("yours")
    broken = toy(picture=lambda case, got, right: 1 / 0)
    assert picture_of(broken, evidence) is None and picture_of(toy(), evidence) is None


def test_a_right_answer_shows_its_score(monkeypatch):
    from labkit.course import checks

    scored = toy(score=lambda answer: f"{answer([1, 2])} of 3 <b>")
    monkeypatch.setattr(checks, "find", lambda _: scored)
    passed = course.check("toys.staged", sum, seed=4, record=False)
    assert repr(passed) == "passed: toys.staged, 87 cases, seed 4. 3 of 3 <b>"
    assert "3 of 3 &lt;b&gt;" in passed._repr_html_()


def test_exercises_refuse_stages_that_make_no_sense():
    with pytest.raises(ValueError, match="last stage asks every case"):
        toy(stages=(Stage("all", only=negative),))
    with pytest.raises(ValueError, match="stages"):
        toy(stages=(Stage("one"), Stage("one")), hints=("a", "b"))
    with pytest.raises(ValueError, match="negatif"):
        toy(hints=(Hint("a", stage="negatif"),))
    with pytest.raises(ValueError, match="rung"):
        toy(rung="hard")
    nowhere = toy(hints=("a",), stages=(Stage("never", only=lambda values: False), Stage("all")))
    with pytest.raises(ValueError, match="no case for the stage 'never'"):
        outcomes(nowhere, sum, 1)


def test_a_card_reads_its_task_from_the_notebook():
    shown = card("strides.view_machine")
    assert shown.statement.startswith("All of it in one function. Write `view_machine(meta, ")
    assert "## Exercise" not in shown.statement
    assert "Write `view_machine" in json.dumps(shown.get_state(), default=str)
