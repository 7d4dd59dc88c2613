"""`labkit workshop`: what to say, and the room to say it in."""

import argparse

from labkit.workshop import start
from labkit.workshop.plan import plan_text, workshops


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    plan = actions.add_parser("plan", help="what to say, ask, expect and leave out, per chapter")
    room = actions.add_parser("start", help="the room on this machine: JupyterHub, in one command")
    for action in (plan, room):
        action.add_argument("--hours", type=int, choices=list(workshops()["programmes"]), default=2)
    start.add_arguments(room)


def run(arguments: argparse.Namespace) -> int:
    """Do one action."""
    if arguments.action == "start":
        return start.run(arguments)
    print(plan_text(arguments.hours))
    return 0
