"""A workshop from its start to its end: three learners, two of them hostile, and a hub that dies.

One room serves every test of this file: its start costs most of their time.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.workshop.learner import Refused
from tests.workshop.rooms import Room

pytest.importorskip("jupyterhub", reason="the extra `workshop` is not installed")
pytest.importorskip("configurable_http_proxy", reason="the extra `workshop` is not installed")
if os.geteuid():
    pytest.skip("not root: learners would share one user", allow_module_level=True)

HERE = str(Path(__file__).parent)
CHAPTER = "0_start_here"


def run(scene):
    """The scene, to its end; in a thread, for a browser test leaves this one with a loop."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, scene).result()


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    room = Room(tmp_path_factory.mktemp("room"), ["Ana", "Ben", "Mallory"])
    try:
        try:
            room.start()
        except AssertionError as error:
            if "no walls between each other" in str(error):
                pytest.skip(f"this machine gives no walls: {error}")
            raise
        yield room
    finally:
        if room.process.poll() is None:
            room.stop()


async def seated(room, name):
    """A learner with a kernel on the first chapter, and its cells by id."""
    learner = room.learner(name)
    await learner.log_in()
    await learner.spawn()
    notebook = await learner.open(CHAPTER)
    return learner, {cell["id"]: cell["source"] for cell in notebook["cells"]}


async def value(learner, expression, cell=""):
    """What an expression is worth in the learner's kernel."""
    said, status = await learner.run(f"print(__import__('json').dumps({expression}))", cell)
    assert status == "ok", said
    return json.loads("".join(c["text"] for k, c in said if k == "stream"))


def test_the_first_picture_is_drawn_and_a_check_answers(room):
    async def scene():
        ana, cells = await seated(room, "ana")
        first = next(cell for cell, source in cells.items() if "import" in source)
        drawn = [kind for kind, _ in (await ana.run(cells[first], first))[0]]
        assert "comm_open" in drawn
        said, status = await ana.run('course.check("start_here.places", lambda *a: None)', first)
        assert status == "error"
        assert "not yet" in str(said)

    run(scene())
    progress = json.loads((room.place / "learners/ana/progress.json").read_text(encoding="utf-8"))
    assert progress["exercises"]["start_here.places"]["attempts"] == 1
    note = json.loads((room.place / "learners/ana/room.json").read_text(encoding="utf-8"))
    assert (note["chapter"], note["failed"]) == (CHAPTER, "CheckFailed")


MODE = """
import sys, torch
from torch.utils._python_dispatch import TorchDispatchMode

class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))

before = set(sys.modules)
with Watching():
    torch.ones(2, 2) @ torch.ones(2, 2)
"""


def test_what_a_dispatch_mode_imports_is_there_already(room):
    """PyTorch imports its compiler then, and sympy: 150 MiB, for each learner."""

    async def scene():
        ben, _ = await seated(room, "ben")
        assert (await ben.run(MODE))[1] == "ok"
        return await value(ben, "sorted(set(sys.modules) - before)")

    assert run(scene()) == []


def test_a_wrong_password_and_a_stranger_are_refused(room):
    async def scene(name, password):
        someone = room.learner("ana")
        someone.name, someone.password = name, password
        await someone.log_in()

    for name, password in (("ana", room.passwords["ben"]), ("nobody", "x"), ("teacher", "")):
        with pytest.raises(Refused) as refused:
            run(scene(name, password))
        assert refused.value.status in (401, 403)


def test_a_hostile_learner_reads_nothing_of_another_s(room):
    place = room.place
    secrets = [
        place / "learners/ana/progress.json", place / "learners/ana/notebooks/0_start_here.ipynb",
        place / "hub/roster.json", place / "hub/jupyterhub.sqlite", place / "hub/cookie_secret",
        place / "hub/hub.log",
    ]  # fmt: skip
    assert [path for path in secrets if not path.exists()] == []

    async def scene():
        await seated(room, "ana")
        mallory, _ = await seated(room, "mallory")
        source = (Path(HERE) / "probes.py").read_text(encoding="utf-8")
        await mallory.run(source)
        assert await value(mallory, f"[read(p) for p in {list(map(str, secrets))!r}]") == [""] * 6
        assert await value(mallory, f"listed({str(place / 'learners')!r})") == ["mallory"]
        assert await value(mallory, "strangers()") == []
        assert await value(mallory, "me()") == "mallory"
        assert await value(mallory, f"written({str(place / 'course/labkit/cli.py')!r})") == ""
        assert await value(mallory, f"torn_down({str(place)!r})") == ""

    run(scene())


def test_a_hostile_learner_reaches_no_other_server(room):
    async def refused(asked):
        with pytest.raises(Refused) as error:
            await asked
        assert error.value.status in (401, 403, 404), error.value

    async def attack():
        await seated(room, "ana")
        mallory, _ = await seated(room, "mallory")
        for path in ("contents/notebooks/0_start_here.ipynb", "sessions", "kernels"):
            await refused(mallory.api(path, owner="ana"))
        token = await value(mallory, "__import__('os').environ['JUPYTERHUB_API_TOKEN']")
        bearer = {"Authorization": f"token {token}"}
        for path in (
            "/hub/api/users", "/hub/api/users/ana", "/hub/api/users/ana/tokens", "/hub/api/proxy",
            "/user/ana/api/contents/notebooks", "/user/ana/api/sessions", "/hub/admin",
        ):  # fmt: skip
            bare = room.learner("mallory")
            await refused(bare.fetch(path, headers=bearer))
            await refused(mallory.fetch(path))
        admin = json.dumps({"admin": True})
        await refused(mallory.fetch("/hub/api/users/mallory", "PATCH", admin, bearer))

    run(attack())


def test_the_teacher_sees_the_room_and_a_learner_does_not(room):
    async def scene():
        ana, _ = await seated(room, "ana")
        with pytest.raises(Refused) as refused:
            await ana.fetch("/services/room/state")
        assert refused.value.status == 403
        teacher = room.learner("teacher")
        await teacher.log_in()
        await teacher.fetch("/services/room/")
        headers = {"X-XSRFToken": teacher.xsrf("/services/room/")}
        page, _ = await teacher.fetch("/services/room/state", headers=headers)
        return json.loads(page.body)

    seen = run(scene())
    assert [one["name"] for one in seen["learners"]] == ["ana", "ben", "mallory"]
    ana = seen["learners"][0]
    assert (ana["chapter"], ana["exercise"]) == (CHAPTER, "start_here.places")
    (row,) = seen["exercises"]
    assert (row["id"], row["passed"], len(row["failing"])) == ("start_here.places", 0, 1)
    assert row["failing"][0]["case"]
    assert dict(row["stages"])["no stage done yet"] == 1


def test_the_teacher_calls_everybody_and_a_learner_cannot(room):
    async def scene():
        teacher = room.learner("teacher")
        await teacher.log_in()
        await teacher.fetch("/services/room/")
        page, _ = await teacher.fetch(
            "/services/room/state", headers={"X-XSRFToken": teacher.xsrf("/services/room/")}
        )
        stop = json.loads(page.body)["plan"][1]
        place = {"chapter": stop["chapter"], "section": stop["sections"][-1]}

        async def everybody(person, asked):
            token = {"X-XSRFToken": person.xsrf("/services/room/")}
            await person.fetch("/services/room/everybody", "POST", json.dumps(asked), token)

        ana, _ = await seated(room, "ana")
        with pytest.raises(Refused) as refused:
            await everybody(ana, place)
        assert refused.value.status == 403
        with pytest.raises(Refused) as refused:
            await everybody(teacher, {**place, "section": "no such"})
        assert refused.value.status == 400
        quiet, _ = await ana.run("1")
        await everybody(teacher, place)
        told, _ = await ana.run("1")
        return place, *(json.dumps(said, default=str) for said in (quiet, told))

    place, quiet, told = run(scene())
    assert "The room goes on at" not in quiet
    assert "The room goes on at" in told
    assert f"{place['chapter']}.ipynb#" in told


def test_work_outlives_a_hub_that_dies(room):
    async def before():
        ben, _ = await seated(room, "ben")
        await ben.run("kept = 41 + 1")

    async def after():
        ben, _ = await seated(room, "ben")
        return await value(ben, "kept")

    run(before())
    died = room.hub_pid()
    os.kill(died, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and room.hub_pid() == died:
        time.sleep(0.2)
    room.wait_for_hub()
    assert run(after()) == 42


def test_stopped_and_started_again_nothing_is_lost(room):
    """Last in this file: it ends the room."""
    work = room.place / "learners/ben/notebooks/0_start_here.ipynb"
    work.write_text("his own", encoding="utf-8")
    frozen = (room.place / "course/labkit/cli.py").stat().st_mtime_ns
    assert room.stop() == 0
    assert _running(room.place) == []
    before = dict(room.passwords)
    assert "Passwords are those of the first start" in room.start()
    assert room.passwords == before
    assert work.read_text(encoding="utf-8") == "his own"
    assert (room.place / "course/labkit/cli.py").stat().st_mtime_ns == frozen


def _running(place):
    """Processes that serve this room."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (folder / "cmdline").read_bytes().decode(errors="replace")
            if str(place) in said or str(place) in str((folder / "cwd").readlink()):
                found.append(said)
    return found
