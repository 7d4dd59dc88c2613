"""Right and wrong answers to the exercises on bottlenecks."""

import operator

from tests.course.answers import Answers, first_hint

answers = Answers("bottleneck")


def cause(spans, at):
    return max(spans[at]["after"], key=lambda n: spans[n]["end"], default=None)


answers.right("cause")(cause)
for why, wrong in {
    "the first of them": lambda spans, at: next(iter(spans[at]["after"]), None),
    "the last number": lambda spans, at: max(spans[at]["after"], default=None),
    "the longest of them": lambda spans, at: max(
        spans[at]["after"], key=lambda n: spans[n]["end"] - spans[n]["start"], default=None
    ),
    "the last to begin": lambda spans, at: max(
        spans[at]["after"], key=lambda n: spans[n]["start"], default=None
    ),
    "whatever ended last before it": lambda spans, at: max(
        (n for n, s in enumerate(spans) if s["end"] <= spans[at]["start"]),
        key=lambda n: spans[n]["end"],
        default=None,
    ),
}.items():
    answers.wrong("cause", why)(wrong)
for why, last in {
    "of equals, the last": lambda after, n: after.index(n),
    "of equals, the lowest number": lambda after, n: -n,
    "of equals, the highest number": lambda after, n: n,
}.items():
    answers.wrong("cause", why)(
        lambda spans, at, last=last: max(
            spans[at]["after"],
            key=lambda n: (spans[n]["end"], last(spans[at]["after"], n)),
            default=None,
        )
    )


@answers.wrong("cause", "sorts what it was given")
def sorts(spans, at):
    found = cause(spans, at)
    spans[at]["after"].sort()
    return found


answers.right("at_most")(lambda share, times: 1 / (1 - share + share / times))
for why, wrong in {
    "the share alone": lambda share, times: times / share if share else 1,
    "the new length": lambda share, times: 1 - share + share / times,
    "times share": lambda share, times: max(1, times * share),
    "whole times": lambda share, times: 1 / (1 - share + share / int(times)),
    "as if it vanished": lambda share, times: 1 / (1 - share) if share < 1 else times,
}.items():
    answers.wrong("at_most", why)(wrong)


# --- detect_bottleneck


def detect(
    spans, walks=True, waits=False, only=None, first=max, least=0.3, follow=cause, named=False,
    of_all=False, above=operator.ge, kinds_of=None, tie=1,
):  # fmt: skip
    at, path = max(range(len(spans))[::tie], key=lambda n: spans[n]["end"]), []
    if first is not max:
        at = len(spans) - 1
    while at is not None and walks:
        path.append(spans[at])
        at = follow(spans, at)
    shares = {}
    for span in path if walks else spans:
        if (waits or span["kind"] != "wait") and (not kinds_of or span["kind"] in kinds_of):
            time = span["end"] - span["start"]
            shares[span["kind"]] = shares.get(span["kind"], 0) + time
    total = sum(shares.values())
    if of_all:
        total = sum(s["end"] - s["start"] for s in spans if s["kind"] != "wait")
    kinds = sorted(shares, key=lambda kind: kind if named else (-shares[kind], kind))
    return [kind for kind in kinds if above(100 * shares[kind], round(100 * least) * total)][:only]


answers.right("detect_bottleneck")(detect)


@answers.right("detect_bottleneck")
def without_the_waits(spans):
    """Takes the waits out of the run first: what waited for one waits for what it waited for."""
    stands_for = {}

    def resolved(number):
        if spans[number]["kind"] != "wait":
            return [number]
        return [n for each in spans[number]["after"] for n in stands_for[each]]

    for number in range(len(spans)):
        stands_for[number] = resolved(number)
    after = {n: [r for each in s["after"] for r in stands_for[each]] for n, s in enumerate(spans)}
    work = [n for n, s in enumerate(spans) if s["kind"] != "wait"]
    at, shares = max(work, key=lambda n: spans[n]["end"]), {}
    while at is not None:
        kind = spans[at]["kind"]
        shares[kind] = shares.get(kind, 0) + spans[at]["end"] - spans[at]["start"]
        at = max(after[at], key=lambda n: spans[n]["end"], default=None)
    total = sum(shares.values())
    rows = sorted((-time, kind) for kind, time in shares.items())
    return [kind for time, kind in rows if -10 * time >= 3 * total]


for why, switch in {
    "the kind with the most work": {"walks": False},
    "counts waits as work": {"waits": True},
    "one kind only": {"only": 1},
    "two kinds at most": {"only": 2},
    "begins at the last number": {"first": None},
    "follows the first of what it waited for": {
        "follow": lambda spans, at: next(iter(spans[at]["after"]), None)
    },
    "by name, not by time": {"named": True},
    "half of the path": {"least": 0.5},
    "of all work, not of the path": {"of_all": True},
    "more than 30 %": {"above": operator.gt},
    "the last of several that end last": {"tie": -1},
    "four kinds only": {"kinds_of": ("input", "host", "copy", "kernel")},
}.items():
    answers.wrong("detect_bottleneck", why)(lambda spans, switch=switch: detect(spans, **switch))


@answers.wrong("detect_bottleneck", "the kind of the longest span")
def longest(spans):
    work = [span for span in spans if span["kind"] != "wait"]
    return [max(work, key=lambda span: span["end"] - span["start"])["kind"]]


@answers.wrong("detect_bottleneck", "share of the device alone")
def device_alone(spans):
    end = max(span["end"] for span in spans)
    busy = sum(span["end"] - span["start"] for span in spans if span["kind"] == "kernel")
    return ["kernel"] if 10 * busy >= 3 * end else ["host"]


@answers.wrong("detect_bottleneck", "empties the list")
def empties(spans):
    found = detect(spans)
    spans.clear()
    return found


@answers.wrong("detect_bottleneck", "always kernel")
def always(spans):
    return ["kernel"]


def test_mistakes_get_their_hints():
    exercise = answers.exercises["detect_bottleneck"]
    assert "no work" in first_hint(exercise, lambda spans: detect(spans, waits=True))
    assert "most of all work" in first_hint(exercise, lambda spans: detect(spans, walks=False))
    assert "order is not" in first_hint(exercise, lambda spans: detect(spans, named=True))
    assert "take turns" in first_hint(exercise, lambda spans: detect(spans, only=1))
    assert "belong to the caller" in first_hint(exercise, empties)
    assert "as they are" in first_hint(answers.exercises["cause"], sorts)
    assert "not None" in first_hint(answers.exercises["cause"], lambda spans, at: None)


test_answers = answers.tests()
