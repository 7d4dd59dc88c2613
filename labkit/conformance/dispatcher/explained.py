"""(e) `explain` of real operators in seven contexts, against a recording of what really ran."""

import random
import warnings
from collections.abc import Iterator
from typing import Any

from labkit.conformance.dispatcher.operators import samples
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally
from labkit.dispatch.contexts import CONTEXTS, explain_in
from labkit.dispatch.explain.steps import Explanation

ROUNDS = {"small": 1, "full": 8}


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Explain every sample in every context, and look at what ran."""
    warnings.simplefilter("ignore")
    beyond = Tally("kernels entered where a kernel decided: each a call or redispatch by the rules")
    for context in CONTEXTS:
        rng = random.Random(f"explained {seed} {context}")
        tally = Tally("")
        whole: set[str] = set()
        partly: set[str] = set()
        for _ in range(ROUNDS[size]):
            for name, args in samples(rng):
                made = explain_in(context, name, *args, below=False)
                (whole if made.complete else partly).add(name)
                if made.raised and context == "plain":
                    raise RuntimeError(f"a sample does not suit its operator:\n{made}")
                tally.add(_predicted(made), _ran(made), f"{name} in {context}\n{made}")
                for run in made.recorded or ():
                    if not run["predicted"]:
                        reached = run["via"] if run["via"] != "unknown" else run
                        beyond.add(reached, _by_the_rules(run), f"{name} in {context}")
        known = f"{len(whole)} operators to the end, {len(partly)} up to a kernel that decides"
        tally.what = f"explained paths in {context} ({known})"
        yield tally.result()
    yield beyond.result()


def _by_the_rules(run: dict[str, Any]) -> str:
    return str(run["via"]) if run["via"] in ("call", "redispatch") else "call or redispatch"


def _predicted(made: Explanation) -> list[tuple[str, int]]:
    hops = [(hop["slot"], hop["result_bits"]) for hop in made.hops if hop["kernel"]]
    if made.raised and made.recorded:  # some operators cannot be vmapped: no further than that
        return hops[: len(made.recorded)]
    return hops


def _ran(made: Explanation) -> list[tuple[str, int]] | str:
    """The recorded path, cut where the prediction says that a kernel decides for itself."""
    if made.recorded is None:
        return f"nothing recorded: {made.note}"
    ran = [(run["slot"], run["bits"]) for run in made.recorded]
    return ran if made.complete else ran[: len(made.hops)]
