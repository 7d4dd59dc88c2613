"""A machine on a synthetic clock, whose speed changes while it works, and the judge of a bench."""

import math
import random
from collections.abc import Callable
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, Wrong, handed_out

Run = Callable[[], float]

TURBO, DISTURBED = 0.4, (3.0, 6.0)
COLD = 3.0
"""How many times its usual time a call takes while a disturbance lasts, or in the warm-up."""


class NoisyMachine:
    """Functions whose usual times are known, and whose calls return what a clock would show.

    jitter  how far one call lies from the next, as a part of its time
    drift   how much longer each call takes than the call before it, whichever function it is of
    bursts  chance that a disturbance of one to three calls begins with a call
    """

    def __init__(
        self, seed: int | str, jitter: float = 0.02, drift: float = 0.0, bursts: float = 0.0
    ) -> None:
        self._random = random.Random(seed)
        self._jitter, self._drift, self._bursts = jitter, drift, bursts
        self._calls = self._left = 0
        self._factor = 1.0

    def function(self, ms: float, cold: int = 0, most: float = math.inf) -> Run:
        """A function that returns the ms of its run; its first `cold` calls are its warm-up.

        Raises (by the function)   RuntimeError   it was called more than `most` times
        """
        calls = 0

        def run() -> float:
            nonlocal calls
            calls += 1
            if calls > most:
                raise RuntimeError(f"more than {most} calls of one function")
            return ms * (COLD if calls <= cold else 1.0) * self._now()

        return run

    def _now(self) -> float:
        """How slow the machine is during the next call."""
        self._calls += 1
        self._left -= 1
        if self._left <= 0:
            self._factor = 1.0
            if self._random.random() < self._bursts:
                self._left = self._random.randint(1, 3)
                high = self._random.uniform(*DISTURBED)
                self._factor = TURBO if self._random.random() < 0.4 else high
        noise = math.exp(self._random.gauss(0, self._jitter))
        return noise * self._factor * math.exp(self._drift * self._calls)


# --- fair_bench

OF = {"noise": 60, "a": 20, "b": 20}
"""How many experiments of each truth one case holds: both are equally fast, or one is faster."""
ENOUGH = 0.8
FEWEST_CALLS, MOST_CALLS = 11, 40
"""Up to ten calls of a function are its warm-up: fewer than eleven measure nothing."""
FAR, NEAR = (0.75, 3, 6), (0.85, 1.8, 2.2)
"""In parts of the jitter: the drift of a call, the least and the largest true difference.

Near, what drift takes from the second call of a turn is half of a true difference: limits that are
wide enough to hide the one do not find the other.
"""
KINDS = ("quiet", "warm-up", "drift", "bursts", "together")


@handed_out
def experiments(seed: int, kind: str) -> list[tuple[str, Run, Run]]:
    """(truth, a, b) of each experiment, on a machine of its own."""
    rng = random.Random(f"{seed}/{kind}")
    truths = [truth for truth, count in OF.items() for _ in range(count)]
    rng.shuffle(truths)
    return [(truth, *_pair(rng, truth, kind)) for truth in truths]


@handed_out
def _pair(rng: random.Random, truth: str, kind: str) -> tuple[Run, Run]:
    every = kind == "together"
    jitter = rng.choice((0.004, 0.02, 0.08))
    step, least, most = NEAR if kind == "drift" else FAR
    drift = rng.choice((-step, step)) * jitter if every or kind == "drift" else 0.0
    bursts = 0.05 if every or kind == "bursts" else 0.0
    cold = [rng.randint(8, 10), 0] if every or kind == "warm-up" else [0, 0]
    rng.shuffle(cold)
    machine = NoisyMachine(rng.getrandbits(40), jitter, drift, bursts)
    usual = rng.uniform(1, 50)
    slower = usual * math.exp(jitter * rng.uniform(least, most))
    first, second = {"a": (usual, slower), "b": (slower, usual), "noise": (usual, usual)}[truth]
    return (
        machine.function(first, cold[0], MOST_CALLS),
        machine.function(second, cold[1], MOST_CALLS),
    )


def _case(kind: str) -> Callable[[Rng, int], Case]:
    return lambda rng, size: Case((rng.getrandbits(40), kind))


UNMEASURED = "not measured"


class Counted:
    """A function that counts its calls."""

    def __init__(self, run: Run) -> None:
        self.run, self.calls = run, 0

    def __call__(self) -> float:
        self.calls += 1
        return self.run()


@handed_out
def _drive(answer: Any, seed: int, kind: str) -> Any:
    """Truth -> how often each word came; "not measured" for one without enough calls of both."""
    said: dict[str, dict[str, int]] = {truth: {} for truth in OF}
    for truth, *pair in experiments(seed, kind):
        a, b = map(Counted, pair)
        word = answer(a, b)
        word = word if isinstance(word, str) else repr(word)
        if min(a.calls, b.calls) < FEWEST_CALLS:
            word = UNMEASURED
        said[truth][word] = said[truth].get(word, 0) + 1
    return said


WORDS = {"noise": "a and b are equally fast", "a": "a is faster", "b": "b is faster"}


def _judge(case: Case, said: Any) -> Wrong | None:
    """None when at least 80 % of the experiments of each truth came out right."""
    if not isinstance(said, dict):
        return Wrong("compare(a, b) returns 'a', 'b' or 'noise'")
    if any(UNMEASURED in words for words in said.values()):
        return Wrong(f"each function is called at least {FEWEST_CALLS} times")
    for truth, count in OF.items():
        right = said[truth].get(truth, 0)
        if right < ENOUGH * count:
            return Wrong(
                f"{WORDS[truth]} in {count} experiments: {truth!r} in at least "
                f"{ENOUGH * count:.0f} of them, and you said it in {right}"
            )
    return None


def _missed(said: dict[str, dict[str, int]]) -> list[str]:
    return [truth for truth, count in OF.items() if said[truth].get(truth, 0) < ENOUGH * count]


def _fails(evidence: Any, kind: str) -> bool:
    return evidence.inputs[1] == kind and bool(_missed(evidence.value))


def _words(case: Case, got: Any, _right: Any) -> Any:
    """Which words came for each truth; nothing where none did."""
    from labkit import show

    if not isinstance(got, dict):
        return None
    return show.bars({WORDS[truth]: words for truth, words in got.items()}, unit="experiments")


fair_bench = Exercise(
    id="performance_practices.fair_bench",
    case=lambda rng, size: _case(KINDS[size])(rng, size),
    drive=_drive,
    judge=_judge,
    picture=_words,
    minutes=12,
    cases=len(KINDS),
    sizes=len(KINDS) - 1,
    show=lambda seed, kind: f"{sum(OF.values())} pairs of functions, on machines with: {kind}",
    stages=(
        Stage("quiet", case=_case("quiet"), cases=2),
        Stage("warm-up", case=_case("warm-up"), cases=2),
        Stage("drift", case=_case("drift"), cases=2),
        Stage("bursts", case=_case("bursts"), cases=2),
        Stage("together"),
    ),
    rules=("plain Python: statistics may be used, no torch, no labkit",),
    banned=("torch.*", "labkit.course.*", "labkit.pipeline.timer"),
    hints=(
        Hint("Call each at most 40 times: 10 to warm up and 20 turns are enough.",
             when=lambda e: e.kind == "raised" and "more than" in e.got),
        Hint("Only calls that come after the first ten of each say how fast it is.",
             when=lambda e: "is called at least" in e.property),
        Hint("Return one of the words 'a', 'b' and 'noise'.",
             when=lambda e: not {w for words in e.value.values() for w in words} <= set(OF)),
        Hint("You name the slower one. A ratio a / b below 1 says that a took less time.",
             when=lambda e: e.value["a"].get("b", 0) > 10 and e.value["b"].get("a", 0) > 10),
        Hint("The first calls of one function are slow here: throw ten of each away.",
             when=lambda e: _fails(e, "warm-up")),
        Hint("The machine becomes slower, or faster, with each call. Call a and b in turns, and "
             "compare the two of one turn. Let b begin every other turn: wider limits hide the "
             "drift, but true differences with it.", when=lambda e: _fails(e, "drift")),
        Hint("A few calls are far off here, in both directions. Neither a mean nor a smallest time "
             "stands that: use the limits of the sorted ratios.",
             when=lambda e: _fails(e, "bursts")),
        Hint("Some machines are calm, some are not: 3 % can be a difference on one of them, and "
             "noise on another. Take the limits from the ratios, and turn no ratio upside down.",
             when=lambda e: _fails(e, "quiet") and {"a", "b"} <= set(_missed(e.value))),
        Hint("Both are equally fast, and you name a winner too often. Say 'noise' when 1 lies "
             "between the limits.", when=lambda e: "noise" in _missed(e.value)),
        "Ten calls of each first. Then 20 turns: in each one call of a and one of b, and in every "
        "other turn b comes first.",
        "From the 20 ratios take the sixth smallest and the sixth largest. Is 1 between them?",
    ),
    must_fail=(
        "runs all of a then all of b",
        "always calls a first",
        "always calls a first, with wide limits",
        "always calls a first, with a margin of its own",
        "sorts the times of each alone",
        "looks into the functions instead of calling them",
        "looks into the functions after enough idle calls",
        "calls each function five times",
        "mean instead of median",
        "minimum of each",
        "no warm-up",
        "warms up one of the two",
        "divides the other way round in every other turn",
        "drops one call",
        "always reports a winner",
        "always noise",
        "names the slower one",
        "three percent are a difference everywhere",
        "too many calls",
    ),
)  # fmt: skip
