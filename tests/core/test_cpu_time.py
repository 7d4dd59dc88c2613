"""What a process has started is found, however it was started and wherever this runs."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil

from labkit.core import cpu_time

PROGRAM = """
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"]):
    pass
"""


def begun():
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=-1, stdout=-1)
    child.stdout.read(1)
    return child


def test_children_of_children_and_of_other_threads_are_found(monkeypatch):
    def fails(pid):
        raise FileNotFoundError(pid)

    with ThreadPoolExecutor(1) as pool, begun() as here, pool.submit(begun).result() as there:
        found = cpu_time.of_descendants()
        assert {here.pid, there.pid} < found.keys()
        assert found.keys() == {each.pid for each in psutil.Process().children(recursive=True)}
        assert all(seconds > 0 for seconds in found.values())
        monkeypatch.setattr(cpu_time, "_below", fails)
        assert cpu_time.of_descendants().keys() == found.keys()
        for child in (here, there):
            child.stdin.close()
