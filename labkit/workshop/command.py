"""`labkit workshop`: what to say, the room to say it in, and the notebooks out and in."""

import argparse
import os
import sys
from pathlib import Path

from labkit.course.notebook_form import read_notebook
from labkit.launcher.problem import Problem
from labkit.workshop import start
from labkit.workshop.bundle import bundle, told
from labkit.workshop.chapter_plan import chapter_text
from labkit.workshop.collect import collect
from labkit.workshop.elsewhere import Room, write
from labkit.workshop.folders import Workshop, release
from labkit.workshop.grading.grade import GRADES, grade
from labkit.workshop.grading.marks import exercises_of
from labkit.workshop.oral import oral_exams, oral_text
from labkit.workshop.plan import plan_text, stops, workshops


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    plan = actions.add_parser("plan", help="what to say, ask, expect and leave out, per chapter")
    plan.add_argument(
        "chapter", nargs="?", help="one chapter, section by section; default: a whole workshop"
    )
    room = actions.add_parser("start", help="the room on this machine: JupyterHub, in one command")
    for action in (plan, room):
        action.add_argument("--hours", type=int, choices=list(workshops()["programmes"]), default=2)
    start.add_arguments(room)
    oral = actions.add_parser("oral", help="five questions on a capstone, and what to expect")
    oral.add_argument("chapter", choices=list(oral_exams()))
    packed = actions.add_parser("bundle", help="one folder for a room without internet")
    packed.add_argument("--no-pages", action="store_true", help="without the course as pages")
    larger = actions.add_parser("elsewhere", help="a larger room: Docker, systemd, Kubernetes")
    larger.add_argument("--teacher", default=Room.teacher, help="who lets learners in")
    larger.add_argument("--image", default=Room.image, help="of the containers, name:tag")
    larger.add_argument("--memory", type=float, default=Room.memory, help="GiB for each learner")
    larger.add_argument("--idle", type=int, default=Room.idle_minutes, help="minutes to stay idle")
    given = actions.add_parser("release", help="the notebooks without a line of their solutions")
    taken = actions.add_parser("collect", help="a copy of every learner's notebooks")
    marks = actions.add_parser("grade", help="run every answer, and enter it into nbgrader's book")
    for action in (packed, larger, given, taken, marks):
        action.add_argument("out", type=Path, help="the folder to write")
    for action in (taken, marks):
        action.add_argument("--folder", type=Path, default=Path("workshop"), help="of the workshop")
    marks.add_argument(
        "--chapters", nargs="+", metavar="NAME", help="default: those of the workshop's programme"
    )
    marks.add_argument(
        "--trust-learners", action="store_true", help="run answers as yourself, without walls"
    )


def run(arguments: argparse.Namespace) -> int:
    """Do one action."""
    if arguments.action == "start":
        return start.run(arguments)
    if arguments.action == "plan" and not arguments.chapter:
        print(plan_text(arguments.hours))
        return 0
    if arguments.action == "oral":
        print(oral_text(arguments.chapter))
        return 0
    try:
        lines = _notebooks(arguments)
    except (Problem, OSError, ValueError, RuntimeError) as trouble:
        print(f"labkit workshop {arguments.action}: {trouble}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def _notebooks(arguments: argparse.Namespace) -> list[str]:
    """What was written, in lines."""
    if arguments.action == "plan":
        return [chapter_text(arguments.chapter)]
    if arguments.action == "bundle":
        bundle(arguments.out.resolve(), pages=not arguments.no_pages)
        return told(arguments.out)
    if arguments.action == "elsewhere":
        room = Room(arguments.teacher, arguments.image, arguments.memory, arguments.idle)
        return [str(path) for path in write(arguments.out, room)]
    if arguments.action == "release":
        return [str(path) for path in release(arguments.out)]
    place = Workshop(arguments.folder.resolve())
    if not place.roster.exists():
        raise ValueError(f"{place.root} is no workshop's folder: name it with --folder")
    if arguments.action == "grade":
        return _graded(place, arguments)
    found = collect(place, arguments.out)
    return [
        f"{arguments.out / name}  {len(chapters)} notebooks" for name, chapters in found.items()
    ]


def _graded(place: Workshop, arguments: argparse.Namespace) -> list[str]:
    out = arguments.out.resolve()
    if arguments.chapters:
        asked = {chapter: _all_exercises(place, chapter) for chapter in arguments.chapters}
    else:
        asked = {s.chapter: s.exercises for s in stops(place.settings["hours"]) if s.exercises}
    grade(place, out, asked, walls=not arguments.trust_learners)
    lab = "jupyter lab" if os.geteuid() else "jupyter lab --allow-root"
    return [
        f"The points: {out / GRADES}; a page for each learner: {out / 'feedback'}",
        f"nbgrader's book, to read and correct: cd {out} && {lab}, then Nbgrader, Formgrader",
    ]


def _all_exercises(place: Workshop, chapter: str) -> tuple[str, ...]:
    notebook = place.course / "notebooks" / f"{chapter}.ipynb"
    if not notebook.is_file():
        raise ValueError(f"{chapter!r} is no chapter; one is '2_core_code/3_strides'")
    return tuple(exercises_of(read_notebook(notebook)))
