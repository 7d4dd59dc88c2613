"""`labkit doctor`: exit 0 when the lab can run here, whatever else may be missing."""

import argparse
import dataclasses
import json

from labkit.doctor.examine import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--json", action="store_true", help="the same rows as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print what this machine has."""
    found = report()
    if arguments.json:
        rows = [dataclasses.asdict(finding) for finding in found]
        print(json.dumps({"driver": found.driver, "findings": rows}, indent=2))
    else:
        print(found)
    return 0 if found.lab_runs else 1
