"""A hostile paper is ended, leaves nothing behind, and takes nothing from the others."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import psutil
import pytest

from labkit.workshop.cell.walls import Cell
from labkit.workshop.grading.meter import Bounds
from labkit.workshop.grading.runner import run
from labkit.workshop.grading.walled import run_walled

if not sys.platform.startswith("linux"):
    pytest.skip("the walls between learners are Linux's", allow_module_level=True)

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
BOUNDS = Bounds(cpu=3, waiting=3, memory=200 * MIB, processes=40)
HONEST = "open('done', 'w').write('42')"
HOSTILE = {
    "spins": ("while True: pass", "more than 3 s of CPU time"),
    "waits": ("import time; time.sleep(600)", "it waited for 3 s"),
    "forks": (
        "import os, time\nfor _ in range(99):\n    if not os.fork(): break\ntime.sleep(600)",
        "40 are allowed",
    ),
    "holds": ("import time; held = bytearray(300 << 20); time.sleep(600)", "0.2 GiB of memory"),
    "floods": ("import os\nwhile True: os.write(2, b'x' * 65536)", "it printed more than"),
    "writes": ("open('big', 'wb').write(bytes(48 << 20))", "No space left on device"),
    "daemons": (
        "import os, time\nif not os.fork():\n    os.setsid()\n    time.sleep(600)",
        "",
    ),
}


@pytest.fixture
def tried(tmp_path):
    """(what went wrong, what the program left in `done`) of a program behind walls."""
    user = None if os.geteuid() else 310_002
    tmp_path.chmod(0o755)
    (tmp_path / "room").mkdir()

    def program(name, source):
        desk, tray = tmp_path / "room" / name / "desk", tmp_path / "room" / name / "tray"
        desk.mkdir(parents=True)
        tray.mkdir()
        seen = (sys.base_prefix, sys.prefix, str(ROOT))
        cell = Cell(
            user, (str(tmp_path / "room"),), seen, (str(desk),),
            (str(desk / "notebooks"), str(ROOT / "notebooks")), 1 << 30, scratch=16 * MIB,
        )  # fmt: skip
        command = [sys.executable, "-c", f"import os; os.chdir({str(desk)!r})\n{source}"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        kept = {str(desk / "done"): tray / "done"}
        try:
            trouble = run_walled(cell, command, environment, BOUNDS, {}, kept)
        except OSError as error:
            pytest.skip(f"this machine gives no walls: {error}")
        done = tray / "done"
        assert list(desk.iterdir()) == []
        return trouble, done.read_text() if done.exists() else ""

    program.room = tmp_path / "room"
    return program


def left(room):
    """Processes that still run in the room."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(room) in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_is_ended_beside_an_honest_one(tried, name):
    source, said = HOSTILE[name]
    with ThreadPoolExecutor(2) as desks:
        hostile, honest = desks.map(tried, ("hostile", "honest"), (source, HONEST))
    assert said in hostile[0]
    assert bool(hostile[0]) == (name != "daemons")
    assert honest == ("", "42")
    assert left(tried.room) == []


def test_an_arena_larger_than_the_desk_is_no_file_on_it(tried):
    """The emulator's device memory: a gigabyte of addresses, of which little is used."""
    source = """
held = os.memfd_create("arena")
os.ftruncate(held, 1 << 30)
open("done", "w").write(str(os.fstat(held).st_size >> 30))"""
    assert tried("arena", source) == ("", "1")


def test_what_is_left_is_no_link_out_of_the_desk(tried):
    secret = tried.room / "secret"
    secret.write_text("another's", encoding="utf-8")
    assert tried("links", f"os.symlink({str(secret)!r}, 'done')") == ("", "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("while True: pass", "it used more than 2 s of CPU time"),
        ("import time; time.sleep(600)", "it waited for 2 s, and nothing came"),
        ("import os; os._exit(3)", "the kernel died"),
    ],
)
def test_an_answer_that_does_not_end_is_taken_out_and_the_others_run(answer, reason):
    def notebook(one):
        cells = [("one", one), ("two", "print(6 * 7)")]
        made = [nbformat.v4.new_code_cell(source, id=name) for name, source in cells]
        for cell in made:
            cell.metadata["tags"] = ["exercise"]
        return nbformat.v4.new_notebook(cells=made)

    handed_in = notebook(answer)
    run(handed_in, notebook("pass"), Bounds(cpu=2, waiting=2))
    one, two = handed_in.cells
    assert (one.source, one.metadata["taken_out"]) == ("pass", reason)
    assert two.outputs[0].text == "42\n"


def test_no_other_paper_can_take_the_port_of_a_kernel_before_it_does():
    """A kernel that does not start earns nothing; and it is asked over no port at all."""
    source = """
from ipykernel.connect import get_connection_info
print(get_connection_info(unpack=True)["transport"])"""
    paper = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="one")])
    run(paper, nbformat.v4.new_notebook())
    assert paper.cells[0].outputs[0].text == "ipc\n"
