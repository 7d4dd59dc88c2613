"""What a timed call leaves behind in the interpreter."""

import contextlib
import subprocess
import sys
import time

import pytest

from labkit.core import cpu_time
from labkit.course.checking import stopwatch

PROGRAM = """
import sys, threading
from labkit.course.checking import stopwatch

def answer():
    try:
        with stopwatch.timed({limit}, 30.0, answer.__code__) as timing:
            timing.armed = True
            while {for_ever}:
                pass
            timing.armed = False
    except stopwatch.TimeUp:
        print("stopped")

thread = threading.Thread(target=answer)
thread.start()
thread.join()
heard = []
sys.setprofile(lambda frame, event, argument: heard.append(event))
(lambda: 1)()
sys.setprofile(None)
print(heard[:2])
"""


@pytest.mark.parametrize("for_ever", [False, True])
def test_a_profile_runs_after_a_check_in_a_thread(for_ever):
    """Python 3.11 stays on one line for ever when an exception was only said to be under way."""
    program = PROGRAM.format(limit=0.1 if for_ever else 60.0, for_ever=for_ever)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["stopped"] * for_ever + ["['call', 'return']"]


def test_a_process_counts_from_its_start_however_late_somebody_looks(monkeypatch):
    monkeypatch.setattr(stopwatch, "WINDOW_SECONDS", 3600.0)  # nobody looks meanwhile
    timing = stopwatch.Timing(60.0, 60.0, processes=True)
    with subprocess.Popen([sys.executable, "-c", BURNS + "\ninput()"], stdin=-1) as child:
        try:
            while cpu_time.of_process(child.pid) < 1:
                time.sleep(0.1)
            monkeypatch.setattr(stopwatch, "WINDOW_SECONDS", 0.0)
            timing.look()
            assert timing.children >= 1
        finally:
            child.kill()


BURNS = "import time\nwhile time.process_time() < 1: pass"


@pytest.mark.parametrize(
    ("meanwhile", "waits", "verdict"),
    [(cpu_time.uncounted, 0.5, ""), (contextlib.nullcontext, 60.0, "used")],
)
def test_what_labkit_builds_meanwhile_is_not_the_answers(meanwhile, waits, verdict, monkeypatch):
    """A kernel's first launch on a machine builds the emulator: half a minute of CPU."""
    monkeypatch.setattr(stopwatch, "WINDOW_SECONDS", 0.2)

    def answer():
        with meanwhile():
            subprocess.run([sys.executable, "-c", BURNS], check=True)

    try:
        with stopwatch.timed(0.3, waits, answer.__code__, processes=True) as timing:
            timing.armed = True
            answer()
            timing.armed = False
    except stopwatch.TimeUp:
        timing.armed = False
    assert timing.why.startswith(verdict) and bool(timing.why) == bool(verdict)
