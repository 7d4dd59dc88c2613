"""Run parts of the comparison in this process and print a line of JSON per comparison."""

import faulthandler
import importlib
import json
import sys
import warnings
from dataclasses import asdict


def main(seed: str, size: str, *parts: str) -> None:
    """Compare the parts, saying when each begins."""
    faulthandler.enable()
    warnings.simplefilter("ignore")  # overriding a kernel is what these parts do
    for part in parts:
        print(json.dumps({"part": part}), flush=True)
        module = importlib.import_module(f"labkit.conformance.dispatcher.{part}")
        for comparison in module.compare(int(seed), size):
            print(json.dumps(asdict(comparison)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
