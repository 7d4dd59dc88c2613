"""`labkit course`: your progress, your machine, and a fresh start."""

import argparse
import sys

from labkit.course import exercises
from labkit.course.cards import progress
from labkit.course.progress_file import reset
from labkit.course.your_machine.kept_parts import forget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the actions."""
    parser.add_argument("action", choices=("progress", "machine", "reset"))
    parser.add_argument("exercise", nargs="?", help="with reset: only this one, as tensors.promote")
    parser.add_argument("--train", action="store_true", help="with machine: train it")
    parser.add_argument("--export", metavar="FOLDER", help="with machine: make a folder of it")


def run(arguments: argparse.Namespace) -> int:
    """Show progress or the machine, or forget one exercise or all of them."""
    if arguments.action == "progress":
        print(progress())
        return 0
    if arguments.action == "machine":
        return _machine(arguments.train, arguments.export)
    if arguments.exercise is not None:
        try:
            exercises.find(arguments.exercise)
        except exercises.UnknownExercise as error:
            print(f"labkit course reset: {error}", file=sys.stderr)
            return 1
    reset(arguments.exercise)
    forget(arguments.exercise)
    print(f"forgotten: {arguments.exercise or 'all progress'}")
    return 0


def _machine(train: bool, folder: str | None) -> int:
    """Show the machine, or train it, and make a folder of it; 1 when a part was taken out."""
    from labkit.course.your_machine.page import machine

    mine = machine()
    page = mine.train() if train else None
    print(mine if page is None else page)
    if folder is not None:
        try:
            print(f"written: {mine.export(folder)}")
        except OSError as error:
            print(f"labkit course machine --export: {error}", file=sys.stderr)
            return 1
    return 1 if page is not None and (page.troubles or not page.done.is_equal) else 0
