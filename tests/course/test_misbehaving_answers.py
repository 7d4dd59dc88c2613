"""Whatever an answer does to the process, there is a verdict and the notebook is as before."""

import builtins
import collections
import contextlib
import gc
import itertools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from labkit.course import checks, progress_file
from labkit.course.checking import keeper
from labkit.course.checks import CheckFailed, TimeUsedUp, check, failing_cases
from tests.course import toys


@pytest.fixture
def progress(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path / "progress.json"


def state():
    """What a notebook relies on."""
    return {
        "folder": Path.cwd(),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "builtins": dict(vars(builtins)),
        "recursion": sys.getrecursionlimit(),
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "modes": torch._C._len_torch_function_stack(),
        "errors": np.geterr(),
        "handlers": [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGALRM, signal.SIGURG)],
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "descriptors": [os.fstat(n).st_ino for n in range(3)],
        "device": torch.ones(1).device,
        "trace": sys.gettrace(),
        "profile": sys.getprofile(),
    }


def closes_stdout(values):
    sys.stdout.close()


def closes_descriptors(values):
    os.close(1)
    os.close(2)


def moves_away(values):
    os.chdir("/")
    os.environ.clear()
    sys.path.clear()


def sets_a_dtype(values):
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(3)
    np.seterr(all="raise")


def sets_a_device(values):
    torch.set_default_device("meta")


def recurses(values):
    sys.setrecursionlimit(60)


def patches_builtins(values):
    builtins.zip = builtins.len = builtins.isinstance = lambda *a, **k: 0
    del builtins.reversed, builtins.getattr


def installs_handlers(values):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 100)


def replaces_streams(values):
    sys.stdout = sys.stderr = None


def profiles(values):
    sys.setprofile(lambda *args: None)


@pytest.mark.parametrize(
    "misbehave",
    [
        closes_stdout, closes_descriptors, moves_away, sets_a_dtype, sets_a_device, recurses,
        patches_builtins, installs_handlers, replaces_streams, profiles,
    ],
)  # fmt: skip
@pytest.mark.parametrize("right", [True, False])
def test_a_verdict_is_given_and_everything_is_as_before(misbehave, right):
    def answer(values):
        total = sum(values)
        misbehave(values)
        return total if right else total + 1

    def raises(values):
        misbehave(values)
        raise ValueError

    before = state()
    assert bool(failing_cases(toys.add_up, answer, 3)) is not right
    assert state() == before
    assert failing_cases(toys.add_up, raises, 3)[0].kind == "raised"
    assert state() == before


def forks(values):
    os.fork()


def forks_a_terminal(values):
    os.forkpty()


def runs_a_shell(values):
    os.system("true")


def spawns(values):
    os.posix_spawn("/bin/true", ["true"], {})


def becomes_another(values):
    os.execv("/bin/true", ["true"])


def kills_the_notebook(values):
    os.kill(os.getpid(), signal.SIGKILL)


saved_fork = os.fork


@pytest.mark.parametrize(
    "start",
    [
        forks, forks_a_terminal, runs_a_shell, spawns, becomes_another, kills_the_notebook,
        lambda values: saved_fork(),
        lambda values: threading.Thread(target=int).start(),
        lambda values: os.popen("true").read(),
    ],
)  # fmt: skip
def test_processes_are_refused_before_they_start(start):
    pid = os.getpid()

    def answer(values):
        with contextlib.suppress(BaseException):
            start(values)
        return sum(values)

    assert failing_cases(toys.add_up, answer, 3)[0].kind == "banned"
    assert os.getpid() == pid


def test_a_thread_that_outlives_its_answer_learns_nothing_and_harms_nothing():
    import _thread

    found = []

    def ask(values):
        with contextlib.suppress(BaseException):
            found.append(toys.total(values))

    def peeks(values):
        _thread.start_new_thread(ask, (values,))
        time.sleep(0.01)
        return found[-1] if found else 0

    assert failing_cases(toys.add_up, peeks, 3)
    assert failing_cases(toys.add_up, sum, 3) == []


def nested(values):
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def a_loop(values):
    value = []
    value.append(value)
    return value


def nested_dicts(values):
    value = {}
    for _ in range(50_000):
        value = {"a": value}
    return value


@pytest.mark.parametrize("answer", [nested, a_loop, nested_dicts])
def test_containers_without_end_are_no_plain_data(answer):
    evidence = failing_cases(toys.add_up, answer, 3)[0]
    assert evidence.kind == "type" and "deep" in evidence.got


def says_half_a_pair(values):
    print("\ud800 printed")
    raise ValueError("\udfff raised")


@pytest.mark.parametrize(
    "answer", [lambda views: "\ud800", lambda views: {"\udc80": 1}, says_half_a_pair]
)
def test_half_a_surrogate_pair_is_shown_and_kept(answer, progress):
    with pytest.raises(CheckFailed) as failed:
        check("start_here.places", answer, seed=3)
    str(failed.value).encode()
    kept = json.loads(progress.read_text(encoding="utf-8"))
    (attempt,) = kept["exercises"]["start_here.places"]["history"]
    assert "\\ud" in str(attempt["failures"]).replace("\\\\", "\\")
    assert progress_file.state_of("start_here.places").attempts == 1


def test_nothing_is_left_beside_the_progress_file(progress):
    with pytest.raises(CheckFailed):
        check("start_here.places", closes_descriptors, seed=3)
    assert {file.name for file in progress.parent.iterdir()} <= {
        "progress.json", ".progress.json.lock",
    }  # fmt: skip


def endless(values):
    while True:
        pass


def endless_without_alarms(values):
    for number in (signal.SIGALRM, signal.SIGURG, signal.SIGPROF):
        signal.signal(number, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)
    while True:
        pass


def endless_in_c(values):
    collections.deque(itertools.repeat(0, 300_000_000), maxlen=0)
    return sum(values)


def blocked(values):
    threading.Event().wait()


def blocked_on_a_pipe(values):
    read, write = os.pipe()
    try:
        os.read(read, 1)
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(
    "answer", [endless, endless_without_alarms, endless_in_c, blocked, blocked_on_a_pipe]
)
def test_running_out_of_time_counts_no_attempt_and_earns_no_hint(answer, progress, monkeypatch):
    monkeypatch.setattr(checks, "find", lambda exercise_id: toys.add_up)
    with pytest.raises(TimeUsedUp) as stopped:
        check("toys.add_up", answer, seed=3)
    text = str(stopped.value)
    assert "s of CPU of the 0.3 s allowed" in text and "No attempt is counted" in text
    assert not progress.exists()


def test_what_is_known_to_be_wrong_outweighs_what_was_stopped():
    def wrong_then_endless(values):
        while len(values) > 3:
            pass
        return sum(values) + 1

    assert failing_cases(toys.add_up, wrong_then_endless, 3)[0].kind == "value"


def test_waiting_and_the_time_of_others_are_not_the_answers():
    """An answer that sleeps a little, while another thread is busy elsewhere, uses no time."""
    from labkit.course.checking.stopwatch import timed

    with timed(1.0, 1.0, test_waiting_and_the_time_of_others_are_not_the_answers.__code__) as clock:
        time.sleep(0.05)
    assert clock.used() < 0.05 and clock.waited == 0.0 and clock.why == ""


def test_the_time_of_processes_it_started_is_the_answers():
    import subprocess
    from dataclasses import replace

    def hires(values):
        code = "while True: pass"
        with subprocess.Popen([sys.executable, "-c", code]) as busy:
            try:
                busy.wait()
            finally:
                busy.kill()

    free = replace(toys.add_up, processes=True, waits=60.0)
    (evidence,) = failing_cases(free, hires, 3)
    assert evidence.kind == "time" and "s of CPU" in evidence.got


def test_what_the_stopwatch_calls_and_processes_of_others_are_not_the_answers(monkeypatch):
    """The stopwatch starts after the guard, and looks at processes with functions of labkit."""
    import subprocess
    from dataclasses import replace

    from labkit.course.checking import stopwatch

    def takes_long(values):
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        return sum(values)

    monkeypatch.setattr(stopwatch, "WINDOW_SECONDS", 0.0)
    for processes in (True, False):
        monkeypatch.setattr(stopwatch, "_watcher", None)
        slow = replace(toys.no_labkit, seconds=30.0, waits=60.0, cases=1, processes=processes)
        assert failing_cases(slow, takes_long, 3) == []

    quick = replace(toys.add_up, seconds=1.0, waits=60.0, cases=1)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            counted = stopwatch.Timing(1.0, 60.0, quick.processes)
            counted.look()
            before = counted.children
            assert busy.poll() is None
            time.sleep(0.2)
            counted.look()
            assert before == counted.children == 0.0
        finally:
            busy.kill()


def test_a_file_that_got_the_number_of_a_copy_stays_open(tmp_path):
    """A program may close every descriptor it does not know."""
    keeper._save_descriptors()
    copy, _ = keeper._spare[1]
    os.close(copy)
    with (tmp_path / "other").open("wb") as other:
        assert other.fileno() == copy
        keeper._restore_descriptors()
        keeper._save_descriptors()
        assert os.fstat(other.fileno()).st_ino == (tmp_path / "other").stat().st_ino
        assert keeper._spare[1][0] != copy


def test_what_the_process_had_frozen_stays_frozen():
    """A workshop's kernels share frozen memory: a collection that walks it would copy it."""
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with keeper.kept_for_all(), keeper.kept_for_all():
            pass
        assert gc.get_freeze_count() >= frozen
    finally:
        gc.unfreeze()
    with keeper.kept_for_all():
        pass
    assert gc.get_freeze_count() == 0
