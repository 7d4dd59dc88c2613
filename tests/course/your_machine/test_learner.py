"""A learner passes the exercises one after another, and the machine trains to the same losses."""

import pytest

from labkit import course
from labkit.course import exercises, progress_file
from labkit.course.progress_file import state_of
from labkit.course.your_machine import kept_parts, last_run, new_cases
from labkit.course.your_machine.seats import SEATS
from tests.course.notebook_answers import answer_from_notebook


@pytest.fixture(autouse=True)
def progress(monkeypatch, tmp_path):
    for module in (progress_file, kept_parts, last_run, new_cases):
        monkeypatch.setattr(module, "_in_memory", {})
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path


def in_the_course():
    """The exercises with a seat, in the order in which the notebooks come."""

    def chapter(seat):
        folder, name = exercises.notebook_of(seat.exercise.partition(".")[0]).split("/")
        number = name.partition("_")[0]
        return folder, int("".join(filter(str.isdigit, number))), number

    return [seat.exercise for seat in sorted(SEATS, key=chapter)]


@pytest.mark.parametrize(
    ("every", "steps"), [(9, 1), pytest.param(1, 4, marks=pytest.mark.full)], ids=["some", "each"]
)
def test_one_exercise_after_another_until_every_seat_is_the_learners(
    emulator, progress, every, steps
):
    losses = []
    for number, name in enumerate(in_the_course(), start=1):
        said = course.check(name, answer_from_notebook(name, progress))
        assert f"now has {number} of {len(SEATS)} parts" in repr(said)
        if number % every == 0:
            trained = course.machine().train(steps)
            assert trained.troubles == [] and trained.done.is_equal, name
            losses.append(trained.done.losses["yours"])
    assert len(losses) == len(SEATS) // every
    assert all(one == pytest.approx(losses[0], abs=1e-5) for one in losses)
    tallies = trained.done.run.tallies
    assert all(tally.yours == tally.calls > 0 for tally in tallies.values()), tallies
    assert all(state_of(name).passed for name in in_the_course())
    files = {file.stem for file in (progress / "parts").glob("*.py")}
    assert files == {seat.exercise for seat in SEATS}
