"""`labkit course`: your progress, and a fresh start."""

import argparse
import sys

from labkit.course import exercises
from labkit.course.cards import progress
from labkit.course.progress_file import reset
from labkit.course.your_machine.kept_parts import forget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the actions."""
    parser.add_argument("action", choices=("progress", "reset"))
    parser.add_argument("exercise", nargs="?", help="with reset: only this one, as tensors.promote")


def run(arguments: argparse.Namespace) -> int:
    """Show progress, or forget one exercise or all of them."""
    if arguments.action == "progress":
        print(progress())
        return 0
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
