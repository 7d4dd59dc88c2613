"""`labkit conformance`: one line per comparison, exit 0 only when all are equal."""

import argparse
from typing import Any

from labkit.conformance import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("layers", nargs="*", metavar="layer", help=", ".join(report.LAYERS))
    parser.add_argument("--seed", type=int, default=0, help="any seed must pass (default 0)")
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument(
        "--system", metavar="FILE", help="Python whose definitions stand in for labkit's part"
    )
    parser.add_argument("--fixtures", metavar="DIR", help="recordings for the allocator layer")


def run(arguments: argparse.Namespace) -> int:
    """Compare the named layers, or all of them."""
    failed = 0
    for layer in arguments.layers or report.LAYERS:
        options: dict[str, Any] = {}
        if layer == "allocator" and arguments.fixtures:
            options["fixtures"] = arguments.fixtures
        try:
            module = report.load(layer)
            if arguments.system:
                options["system"] = report.system_in(arguments.system, layer)
        except ValueError as error:
            raise SystemExit(f"labkit conformance: {error}") from None
        print(f"== {layer} (seed {arguments.seed}, {arguments.size})", flush=True)
        comparisons = 0
        try:
            for comparison in report.run(layer, arguments.seed, arguments.size, **options):
                comparisons += 1
                failed += not comparison.passed
                print(f"  {comparison}", flush=True)
        except report.InputError as error:
            raise SystemExit(f"labkit conformance: {error}") from None
        except Exception as error:
            if not arguments.system:
                raise
            print(f"  {arguments.system} raises {type(error).__name__}: {error}")
            failed += 1
        failed += comparisons == 0
        for sentence in module.NOT_MODELLED:
            print(f"  not modelled: {sentence}")
    return 1 if failed else 0
