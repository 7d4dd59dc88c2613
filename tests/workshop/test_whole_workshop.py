"""A workshop of two hours without its pauses: from the first log-in to graded answers.

A third of the learners answers wrongly, and in a tenth an answer kills the kernel. One of them and
the teacher sit at a browser. With 20 learners it takes as long as the machine has CPU for. What was
measured lies as `figures.json` beside the screenshots ($LABKIT_SCREENSHOTS).
"""

import asyncio
import csv
import json
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labkit.doctor.tools import find_chromium
from labkit.workshop.folders import Workshop
from labkit.workshop.grading.grade import grade
from labkit.workshop.plan import stops
from tests.workshop.rooms import Room
from tests.workshop.seat import Seat, kind_of

for needed in ("jupyterhub", "configurable_http_proxy", "nbgrader", "playwright"):
    pytest.importorskip(needed, reason="the extra `workshop` is not installed")
if os.geteuid():
    pytest.skip("not root: learners would share one user", allow_module_level=True)

STAGGER = 3
"""Seconds between two learners who come in."""
MOST_MIB = 200
MILLISECONDS = 300_000


@pytest.fixture
def shots(tmp_path):
    folder = Path(os.environ.get("LABKIT_SCREENSHOTS") or tmp_path / "shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.full
@pytest.mark.parametrize(("learners", "chapters"), [(3, 2), (20, 5)])
def test_from_the_first_log_in_to_graded_answers(learners, chapters, tmp_path, shots):
    if find_chromium() is None:
        pytest.skip("no Chromium found")
    seats = [Seat(f"seat-{n:02}", kind_of(n)) for n in range(learners)]
    programme = stops(2)[:chapters]
    room = Room(tmp_path, [seat.name for seat in seats])
    try:
        room.start()
        with ThreadPoolExecutor(1) as other:
            waits = other.submit(asyncio.run, whole(room, seats, programme, shots)).result()
    finally:
        if room.process and room.process.poll() is None:
            assert room.stop() == 0
    begun = time.monotonic()
    graded = tmp_path / "graded"
    exercises = {stop.chapter: stop.exercises for stop in programme}
    grade(Workshop(room.place), graded, exercises)
    figures = {
        "learners": {seat.name: {"kind": seat.kind, **seat.figures} for seat in seats},
        "teacher's page, s": {
            "longest": max(waits),
            "median": statistics.median(waits),
            "all": waits,
        },
        "grading, s": round(time.monotonic() - begun, 1),
        "load": os.getloadavg(),
    }
    (shots / "figures.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")

    assert [seat.refused for seat in seats] == [[]] * learners
    assert {s.name for s in seats if len(s.crashed) == chapters} == {
        s.name for s in seats if s.kind == "crash"
    }
    assert {seat.name: earned(graded, seat) for seat in seats} == {
        seat.name: seat.points(programme) for seat in seats
    }
    most = max((seat.figures for seat in seats), key=lambda figures: figures["MiB"])
    assert most["MiB"] <= MOST_MIB, most


def earned(graded, seat):
    """Exercise -> points, of one seat."""
    with (graded / "grades.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["learner"] == seat.name]
    return {row["exercise"]: int(row["points"]) for row in rows}


async def whole(room, seats, programme, shots):
    """Everybody's two hours; returns how long the teacher's page waited for each answer, in s."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=flags)
        teacher = await log_in(browser, room, "teacher")
        await teacher.goto(f"{room.address}/services/room/")
        await teacher.get_by_text("Who is where").wait_for()
        waits, over = [], asyncio.Event()
        watching = asyncio.create_task(watch(teacher, waits, over, shots))

        async def come_in(place, seat):
            await asyncio.sleep(STAGGER * place)
            if place == 0:
                await at_a_browser(browser, room, seat, shots)
            await seat.attend(room, programme)

        await asyncio.gather(*(come_in(place, seat) for place, seat in enumerate(seats)))
        await call_everybody(teacher, len(programme) - 1, programme[-1])
        over.set()
        await watching
        await teacher.locator("#exercises details summary").first.click()
        for name, width, height in (("teacher", 1280, 720), ("teacher_large", 1920, 1080)):
            await teacher.set_viewport_size({"width": width, "height": height})
            await teacher.screenshot(path=shots / f"{name}.png")
        passed = await teacher.locator("#summary").inner_text()
        assert passed.startswith(f"{len(seats)} learners")
        await browser.close()
    return waits


async def log_in(browser, room, name):
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(MILLISECONDS)
    await page.goto(f"{room.address}/hub/login?next=%2Fhub%2Fhome")
    await page.fill("input[name=username]", name)
    await page.fill("input[name=password]", room.passwords[name])
    await page.click("input[type=submit]")
    await page.wait_for_url("**/hub/home")
    return page


async def at_a_browser(browser, room, seat, shots):
    """The first learner logs in by hand and runs cells until a picture stands there."""
    begun = time.monotonic()
    page = await log_in(browser, room, seat.name)
    await page.goto(f"{room.address}/hub/spawn")
    await page.locator(".jp-Notebook .jp-Cell").first.click()
    while not await page.locator(".lk").count():
        await page.keyboard.press("Shift+Enter")
        await asyncio.sleep(0.5)
    seat.figures["in the browser, s"] = round(time.monotonic() - begun, 1)
    await page.screenshot(path=shots / "learner.png")
    await page.context.close()


async def watch(teacher, waits, over, shots):
    """Ask for the state of the room as the page does, all the time."""
    ask = """async () => { const begun = performance.now(); const answer = await fetch("state",
        { headers: { "X-XSRFToken": token() } }); await answer.text();
        return answer.ok ? (performance.now() - begun) / 1000 : null }"""
    while not over.is_set():
        seconds = await teacher.evaluate(ask)
        assert seconds is not None
        waits.append(round(seconds, 2))
        if len(waits) % 10 == 1:
            await teacher.screenshot(path=shots / f"room_{len(waits):03}.png")
        await asyncio.sleep(3)


async def call_everybody(teacher, place, stop):
    """The teacher chooses a section on the page, and the page says where all are called to."""
    section = next(section.name for section in stop.done if section.name)
    await teacher.locator("#plan select").nth(place).select_option(section)
    await teacher.get_by_text(f"called to: {section}").wait_for()
