"""`labkit workshop`: what to say, and the room to say it in."""

import argparse

from labkit.workshop.plan import plan_text, workshops


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    plan = actions.add_parser("plan", help="what to say, ask, expect and leave out, per chapter")
    plan.add_argument("--hours", type=int, choices=list(workshops()["programmes"]), default=2)


def run(arguments: argparse.Namespace) -> int:
    """Do one action."""
    print(plan_text(arguments.hours))
    return 0
