"""Right and wrong answers to the exercises on leaving early."""

import math

import torch

from tests.course.answers import Answers, first_hint

answers = Answers("early_exit")

answers.right("sureness")(lambda logits: 1 / sum(math.exp(x - max(logits)) for x in logits))
for why, wrong in {
    "the largest logit": max,
    "overflows": lambda logits: math.exp(max(logits)) / sum(math.exp(x) for x in logits),
    "divides by the sum of logits": lambda logits: max(logits) / (sum(logits) or 1),
}.items():
    answers.wrong("sureness", why)(wrong)


@answers.wrong("sureness", "1.0 where exp overflows")
def sure_beyond_exp(logits):
    try:
        return math.exp(max(logits)) / sum(math.exp(x) for x in logits)
    except (OverflowError, ZeroDivisionError):
        return 1.0


# --- limit_for


def limits(sure, right, wanted, order=sorted, beyond=False, of_all=False):
    for limit in order(set(sure)):
        leaving = [
            ok
            for one, ok in zip(sure, right, strict=True)
            if one > limit or (one == limit and not beyond)
        ]
        if sum(leaving) >= wanted * len(sure if of_all else leaving):
            return limit
    return math.inf


answers.right("limit_for")(limits)


@answers.wrong("limit_for", "the wanted share itself")
def itself(sure, right, wanted):
    return wanted


@answers.wrong("limit_for", "the largest wrong one")
def above_the_wrong(sure, right, wanted):
    wrong = [one for one, ok in zip(sure, right, strict=True) if not ok]
    return max(wrong, default=min(sure))


@answers.wrong("limit_for", "more than the limit")
def beyond(*case):
    return limits(*case, beyond=True)


@answers.wrong("limit_for", "the largest limit")
def largest(*case):
    return limits(*case, order=lambda values: sorted(values, reverse=True))


@answers.wrong("limit_for", "share of all, not of those who leave")
def of_all(*case):
    return limits(*case, of_all=True)


# --- early_exit


def leaving(fast, full, x, limit, share=lambda logits: logits.softmax(1)):
    logits = fast(x)
    unsure = (share(logits).amax(1) < limit).nonzero()[:, 0]
    labels = logits.argmax(1)
    if len(unsure):
        labels[unsure] = full(x[unsure]).argmax(1)
    return labels


answers.right("early_exit")(leaving)


@answers.right("early_exit")
def into_the_logits(fast, full, x, limit):
    logits = fast(x)
    unsure = (logits.softmax(1).amax(1) < limit).nonzero()[:, 0]
    if len(unsure):
        logits[unsure] = full(x[unsure])
    return logits.argmax(1)


@answers.wrong("early_exit", "at the limit is not sure")
def more_than_the_limit(fast, full, x, limit):
    return leaving(fast, full, x, math.nextafter(limit, 2))


@answers.wrong("early_exit", "labels as floats")
def floats(fast, full, x, limit):
    return leaving(fast, full, x, limit).double()


@answers.wrong("early_exit", "batch maximum")
def for_all(fast, full, x, limit):
    logits = fast(x)
    return (logits if logits.softmax(1).max() >= limit else full(x)).argmax(1)


@answers.wrong("early_exit", "threshold on logits")
def on_logits(*case):
    return leaving(*case, share=lambda logits: logits)


@answers.wrong("early_exit", "per-sample host reads")
def one_by_one(fast, full, x, limit):
    logits = fast(x)
    labels = logits.argmax(1)
    sure = logits.softmax(1).amax(1)
    rows = [row for row in range(len(x)) if sure[row] < limit]
    if rows:
        labels[rows] = full(x[rows]).argmax(1)
    return labels


@answers.wrong("early_exit", "never exits")
def never(fast, full, x, limit):
    fast(x)
    return full(x).argmax(1)


@answers.wrong("early_exit", "the full branch for all, then a choice")
def chosen(fast, full, x, limit):
    logits = fast(x)
    sure = logits.softmax(1).amax(1) >= limit
    return torch.where(sure, logits.argmax(1), full(x).argmax(1))


@answers.wrong("early_exit", "calls the full branch with nobody")
def with_nobody(fast, full, x, limit):
    logits = fast(x)
    unsure = (logits.softmax(1).amax(1) < limit).nonzero()[:, 0]
    labels = logits.argmax(1)
    labels[unsure] = full(x[unsure]).argmax(1)
    return labels


@answers.wrong("early_exit", "labels of the unsure at the front")
def at_the_front(fast, full, x, limit):
    logits = fast(x)
    unsure = (logits.softmax(1).amax(1) < limit).nonzero()[:, 0]
    labels = logits.argmax(1)
    if len(unsure):
        labels[: len(unsure)] = full(x[unsure]).argmax(1)
    return labels


@answers.wrong("early_exit", "asks the fast branch twice")
def twice_asked(fast, full, x, limit):
    fast(x)
    return leaving(fast, full, x, limit)


@answers.wrong("early_exit", "a list of labels")
def in_a_list(*case):
    return leaving(*case).tolist()


@answers.wrong("early_exit", "returns logits")
def logits_of_all(fast, full, x, limit):
    logits = fast(x)
    unsure = (logits.softmax(1).amax(1) < limit).nonzero()[:, 0]
    if len(unsure):
        logits[unsure] = full(x[unsure])
    return logits


def test_mistakes_get_their_hints():
    exercise = answers.exercises["early_exit"]
    assert "unsure rows alone" in first_hint(exercise, chosen)
    assert "at the limit leaves" in first_hint(exercise, more_than_the_limit)
    assert "Ask the fast branch once" in first_hint(exercise, twice_asked)
    assert "argmax(1) makes a label" in first_hint(exercise, logits_of_all)
    assert "decides for itself" in first_hint(exercise, for_all)
    assert "waits once" in first_hint(exercise, one_by_one)
    assert "empty batch" in first_hint(exercise, with_nobody)
    assert "no probability" in first_hint(exercise, on_logits)
    assert "A tensor of labels" in first_hint(exercise, in_a_list)
    assert "Nobody leaves with" in first_hint(answers.exercises["limit_for"], lambda *_: math.inf)


test_answers = answers.tests()
