"""Run one part in this process and print a line of JSON per comparison."""

import faulthandler
import importlib
import json
import sys
import warnings
from dataclasses import asdict


def main(part: str, seed: str, size: str) -> None:
    """Compare one part."""
    faulthandler.enable()
    warnings.simplefilter("ignore")  # overriding a kernel is what these parts do
    module = importlib.import_module(f"labkit.conformance.dispatcher.{part}")
    for comparison in module.compare(int(seed), size):
        print(json.dumps(asdict(comparison)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
