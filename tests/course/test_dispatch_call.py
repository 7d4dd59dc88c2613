import pytest

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.course.checks import failing_cases
from labkit.course.exercise import Hint
from labkit.course.exercises import find
from tests.course.answers import Answers

answers = Answers("dispatch_call")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"

# --- predict_the_hops


def hops(masks_first=True, masks_always=False, stops=False, passes_over=False):
    def predict_the_hops(word, mask, table):
        keys, entered = DispatchKeySet.from_raw_repr(word & mask if masks_first else word), []
        while True:
            slot = str(keys.slot_key())
            kernel = table.get(slot, "skip")
            if kernel == "skip":
                if not passes_over or slot == "Undefined":
                    return [*entered, "error"]
                kernel = "on"
            else:
                entered.append(slot)
            if kernel == "end" or (stops and "Autograd" in slot):
                return entered
            if isinstance(kernel, int):
                keys = DispatchKeySet.from_raw_repr(kernel & mask if masks_always else kernel)
            else:
                keys = keys & DispatchKeySet.full_after(keys.highest_functionality())

    return predict_the_hops


answers.right("predict_the_hops")(hops())
for why, answer in [
    ("mask applied at every hop", hops(masks_always=True)),
    ("no mask at all", hops(masks_first=False)),
    ("stops at Autograd", hops(stops=True)),
    ("an empty slot is passed over", hops(passes_over=True)),
    (CONSTANT, lambda *call: ["AutogradCPU", "CPU"]),
]:
    answers.wrong("predict_the_hops", why)(answer)


@answers.wrong("predict_the_hops", FIRST, make=True)
def remembers_the_first_call():
    kept = []

    def answer(*call):
        kept.append(hops()(*call))
        return kept[0]

    return answer


@answers.wrong("predict_the_hops", BANNED)
def asks_the_dispatcher(word, mask, table):
    from labkit.dispatch.explain.predict import first_keys
    from labkit.dispatch.situation import Situation

    first_keys([mask] * 16, Situation((), DispatchKeySet(), DispatchKeySet()))
    return hops()(word, mask, table)


# --- joined, on_thread


def joined_by(join=lambda word, item: word | item, lists=True, first=False):
    def joined(arguments):
        word = 0
        for value in arguments[:1] if first else arguments:
            for item in value if isinstance(value, list) and lists else [value]:
                word = join(word, item) if isinstance(item, int) else word
        return word

    return joined


answers.right("joined")(joined_by())
answers.right("on_thread")(lambda word, inc, exc: (word | inc) & ~(exc >> 16 << 16))
for name, why, answer in [
    ("joined", "only the first argument", joined_by(first=True)),
    ("joined", "lists ignored", joined_by(lists=False)),
    ("joined", "adds the words", joined_by(lambda word, item: word + item)),
    ("joined", "takes the largest word", joined_by(max)),
    (
        "on_thread",
        "excluded before included",
        lambda word, inc, exc: word & ~(exc >> 16 << 16) | inc,
    ),
    (
        "on_thread",
        "excluded takes backends, too",
        lambda word, inc, exc: (word | inc) & ~exc,
    ),
    (
        "on_thread",
        "forgets what the thread includes",
        lambda word, inc, exc: word & ~(exc >> 16 << 16),
    ),
    ("on_thread", "forgets what the thread excludes", lambda word, inc, exc: word | inc),
    (
        "on_thread",
        "forgets what the thread excludes",
        lambda word, inc, exc: (word | inc) ^ (exc >> 16 << 16),
    ),
]:
    answers.wrong(name, why)(answer)


def test_the_examples_of_the_tasks_are_right():
    word = DispatchKeySet("CPU", "AutogradCPU").raw
    assert hops()(word, word, {"AutogradCPU": "on", "CPU": "end"}) == ["AutogradCPU", "CPU"]
    assert joined_by()([1, [2, None], "8"]) == 3


def no_error(word, mask, table):
    return [slot for slot in hops()(word, mask, table) if slot != "error"]


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("on_thread", lambda word, inc, exc: (word | inc) & ~exc, "A backend is missing"),
        (
            "on_thread",
            lambda word, inc, exc: word & ~(exc >> 16 << 16),
            "the thread includes: join",
        ),
        ("on_thread", lambda word, inc, exc: word & ~(exc >> 16 << 16) | inc, "take away last"),
        ("on_thread", lambda word, inc, exc: (word | inc) ^ (exc >> 16 << 16), ""),
        ("predict_the_hops", no_error, "'error' is missing"),
    ],
)
def test_the_hint_about_the_fault_fits_and_no_other(name, wrong, said):
    exercise = find(f"dispatch_call.{name}")
    for seed in range(20):
        failure = failing_cases(exercise, wrong, seed, search=False)[0]
        hints = [hint for hint in exercise.hints if isinstance(hint, Hint)]
        fitting = [hint.text for hint in hints if not hint.stage and hint.fits(failure)]
        assert [text for text in fitting if said not in text] == []
        assert len(fitting) == (said != "")


def test_a_failing_call_is_one_call_with_the_names_of_its_keys():
    exercise = find("dispatch_call.predict_the_hops")
    failure = failing_cases(exercise, hops(masks_first=False), 3, search=False)[0]
    word, _, table = failure.inputs
    key = str(DispatchKeySet.from_raw_repr(word).slot_key())
    assert table[key] == "skip"
    assert f"{word:#x} {{" in failure.input and key in failure.input.partition("takes out")[2]


def test_a_failing_thread_is_told_in_one_base():
    failure = failing_cases(find("dispatch_call.on_thread"), lambda *words: 0, 3, search=False)[0]
    assert failure.expected.startswith("'0x") and failure.got == "'0x0'"


test_answers = answers.tests()
