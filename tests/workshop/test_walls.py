"""A cell hides the rest of the workshop and the machine's homes, with root's help and without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("the walls between learners are Linux's", allow_module_level=True)

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, os, sys
from pathlib import Path
from labkit.workshop.cell.walls import Cell, enter
given = json.loads(sys.argv[1])
cell = Cell(**{k: tuple(v) if isinstance(v, list) else v for k, v in given["cell"].items()})
try:
    child = enter(cell)
except OSError as error:
    print(json.dumps({"no walls": str(error)}))
    raise SystemExit(0)
if child:
    os.waitpid(child, 0)
    raise SystemExit(0)
try:
    sys.path.insert(0, given["tests"])
    import probes
    print(json.dumps(eval(given["asked"])), flush=True)
finally:
    os._exit(0)
"""


@pytest.fixture(params=["a user of their own", "the same user"])
def ask(request, tmp_path):
    """What an expression over `probes` gives inside ana's cell; the user is one nobody is."""
    if os.geteuid() and request.param == "a user of their own":
        pytest.skip("only root makes a learner a user of their own")
    user = 310_001 if request.param == "a user of their own" else None
    room, seen = tmp_path / "room", tmp_path / "seen"
    for name in ("ana", "ben"):
        (room / name / "notebooks").mkdir(parents=True)
        (room / name / "notebooks" / "0.ipynb").write_text(f"{name}'s work", encoding="utf-8")
        for path in (room / name, *(room / name).rglob("*")):
            if user is not None:
                os.chown(path, user, user)
    (room / "hub").mkdir()
    (room / "hub" / "cookie_secret").write_text("secret", encoding="utf-8")
    (seen / "notebooks").mkdir(parents=True)
    (seen / "notebooks" / "0.ipynb").write_text("the release", encoding="utf-8")
    tests = str(Path(__file__).parent)

    def inside(asked, memory=1 << 32):
        cell = {
            "user": user, "hidden": [str(room)], "own": [str(room / "ana")], "memory": memory,
            "seen": [sys.base_prefix, sys.prefix, str(ROOT), str(seen)],
            "notebooks": [str(room / "ana" / "notebooks"), str(seen / "notebooks")],
        }  # fmt: skip
        given = json.dumps({"cell": cell, "tests": tests, "asked": asked})
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, given], capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.stdout, done.stderr
        answer = json.loads(done.stdout)
        if isinstance(answer, dict) and "no walls" in answer:
            pytest.skip(f"this machine gives no walls: {answer['no walls']}")
        return answer

    inside.room, inside.seen = room, seen
    return inside


def test_of_the_room_only_the_own_part_is_there(ask):
    room = ask.room
    found = ask(
        f"[probes.listed({str(room)!r}), probes.read({str(room / 'ben/notebooks/0.ipynb')!r}),"
        f" probes.read({str(room / 'hub/cookie_secret')!r}),"
        f" probes.read({str(room / 'ana/notebooks/0.ipynb')!r})]"
    )
    assert found == [["ana"], "", "", "ana's work"]


def test_the_course_shows_the_learner_s_own_notebooks(ask):
    own = ask.seen / "notebooks"
    written = str(own / "new.ipynb")
    assert ask(f"[probes.read({str(own / '0.ipynb')!r}), probes.written({written!r})]") == [
        "ana's work", written,
    ]  # fmt: skip
    assert (ask.room / "ana/notebooks/new.ipynb").exists()
    assert not (own / "new.ipynb").exists()


def test_everything_else_is_read_only_or_empty(ask):
    places = [str(ask.seen / "x"), str(ROOT / "x"), "/usr/x", "/etc/x", "/root/x/x", "/home/x/x"]
    assert ask(f"[probes.written(place) for place in {places!r}]") == [""] * len(places)
    assert ask("[probes.listed('/home'), probes.listed('/run')]") == [[], []]


def test_other_processes_are_not_there(ask):
    mine = ask("[os.getpid(), sorted(map(int, filter(str.isdigit, os.listdir('/proc'))))]")
    assert mine == [1, [1]]


def test_no_wall_can_be_taken_away(ask):
    assert ask(f"[probes.torn_down({str(ask.room)!r}), probes.became_root()]") == ["", ""]


def test_a_program_that_holds_too_much_is_refused(ask):
    asked = "probes.too_much(1 << 29)"
    assert ask(asked) == ""
    assert ask(asked, memory=1 << 28) == "MemoryError"
