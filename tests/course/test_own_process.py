"""What comes back from a process of its own: what was found, or how it ended."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from labkit.course.checking.own_process import Ended, in_own_process
from labkit.course.checking.verdicts import NotAttempted
from labkit.course.exercise import Evidence, Exercise

EXERCISE = Exercise(id="toys.apart", case=lambda rng, size: (size,), hints=("",), must_fail=("",))


def test_what_was_found_comes_back_and_its_files_are_gone():
    def ask(note):
        note(0, (1,))
        with tempfile.NamedTemporaryFile(delete=False) as left:
            pass
        return [Evidence("value", left.name, "", "", "", "", 1, value=lambda: "cannot travel")]

    (found,) = in_own_process(EXERCISE, ask)
    assert found.value is None and not Path(found.input).parent.exists()


def test_an_unfinished_answer_is_unfinished_here_as_well():
    def ask(note):
        raise NotAttempted(EXERCISE)

    with pytest.raises(NotAttempted):
        in_own_process(EXERCISE, ask)


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "memory that was not there"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "signal SIGTERM"),
        (lambda: os._exit(3), "exit status 3"),
    ],
)
def test_a_process_that_ends_is_told_with_the_case_it_was_asked(end, how):
    def ask(note):
        note(4, ("first",))
        note(5, ("second",))
        return end()

    with pytest.raises(Ended, match=how) as raised:
        in_own_process(EXERCISE, ask)
    assert (raised.value.number, raised.value.inputs) == (5, ("second",))


def test_a_check_that_fails_itself_says_why():
    def ask(note):
        raise FileNotFoundError("no film here")

    with pytest.raises(RuntimeError, match=r"the check itself failed:(?s:.)*no film here"):
        in_own_process(EXERCISE, ask)
