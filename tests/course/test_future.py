"""Right and wrong answers to the exercises on features to be asked for, and growing segments."""

import math

import pytest
import torch

from labkit.course.exercises._masked_builds import Build
from labkit.course.exercises._masked_builds import answers as words
from labkit.course.exercises.future import reserved
from tests.course.answers import FIRST, Answers, first_hint

answers = Answers("future")
ATTENTION = "nn.functional.scaled_dot_product_attention"
NO = (AttributeError, ImportError, NotImplementedError, RuntimeError)


# --- asked


@answers.right("asked")
def asked(use, right):
    try:
        value = use()
    except NO:
        return "absent"
    return "available" if value == right else "absent"


@answers.wrong("asked", "returns available on exception")
def available_on_error(use, right):
    try:
        return "available" if use() == right else "absent"
    except NO:
        return "available"


@answers.wrong("asked", "catches every exception and returns a default")
def catches_all(use, right):
    try:
        return "available" if use() == right else "absent"
    except Exception:
        return "absent"


@answers.wrong("asked", "never looks at the value")
def no_value(use, right):
    try:
        use()
    except NO:
        return "absent"
    return "available"


@answers.wrong("asked", "uses it twice")
def twice(use, right):
    try:
        use()
        return "available" if use() == right else "absent"
    except NO:
        return "absent"


@answers.wrong("asked", "forgets NotImplementedError and ImportError")
def fewer_errors(use, right):
    try:
        value = use()
    except NotImplementedError as error:
        raise ValueError from error
    except (AttributeError, RuntimeError):
        return "absent"
    return "available" if value == right else "absent"


@answers.wrong("asked", "asks whether it is the same object")
def same_object(use, right):
    try:
        value = use()
    except NO:
        return "absent"
    return "available" if value is right else "absent"


def asked_with(errors, equal=lambda value, right: value == right):
    def answer(use, right):
        try:
            value = use()
        except errors:
            return "absent"
        return "available" if equal(value, right) else "absent"

    return answer


for why, answer in [
    ("takes other errors for an answer, too", asked_with((*NO, OSError))),
    ("takes other errors for an answer, too", asked_with((*NO, AssertionError))),
    ("compares texts", asked_with(NO, lambda value, right: str(value) == str(right))),
    (
        "wants the same class",
        asked_with(NO, lambda value, right: type(value) is type(right) and value == right),
    ),
]:
    answers.wrong("asked", why)(answer)


@answers.wrong("asked", "takes an error of the comparison for an answer")
def compares_inside(use, right):
    try:
        return "available" if use() == right else "absent"
    except NO:
        return "absent"


@answers.wrong("asked", "lets four errors out and takes every other one for an answer")
def lists_the_others(use, right):
    try:
        value = use()
    except (TypeError, ValueError, KeyError, ZeroDivisionError):
        raise
    except Exception:
        return "absent"
    return "available" if value == right else "absent"


@answers.wrong("asked", "knows the four errors and not their kinds")
def exact_classes(use, right):
    try:
        value = use()
    except Exception as error:
        if type(error) in NO:
            return "absent"
        raise
    return "available" if value == right else "absent"


@answers.wrong("asked", "uses it again after an error")
def once_more(use, right):
    try:
        value = use()
    except NO:
        return "absent"
    except Exception:
        value = use()
    return "available" if value == right else "absent"


@answers.wrong("asked", "raises another error in place of theirs")
def another_error(use, right):
    try:
        value = use()
    except NO:
        return "absent"
    except Exception as error:
        raise ValueError(str(error)) from error
    return "available" if value == right else "absent"


# --- probe


def uses(m, attention_of=lambda m: m.nn.functional.scaled_dot_product_attention):
    def attention(**kwargs):
        v = m.tensor([[[0.0], [1.0]]])
        return attention_of(m)(m.zeros(1, 2, 1), v, v, **kwargs).tolist()

    def csr():
        return m.sparse_csr_tensor([0, 1], [1], [2.0], (1, 2)).to_dense().tolist()

    def layout_3d():
        return m.ones(1, 2, 2, 2, 2).to(memory_format=m.channels_last_3d).stride()

    return {
        "sparse": [
            (lambda: m.sparse_coo_tensor([[1]], [2.0], (2,)).to_dense().tolist(), [0.0, 2.0]),
            (csr, [[0.0, 2.0]]),
        ],
        "float8": [
            (lambda: m.tensor([1.5]).to(m.float8_e4m3fn).float().tolist(), [1.5]),
            (lambda: m.tensor([1.5]).to(m.float8_e5m2).float().tolist(), [1.5]),
        ],
        "layout": [
            (
                lambda: m.ones(1, 2, 2, 2).to(memory_format=m.channels_last).stride(),
                (8, 1, 4, 2),
            ),
            (layout_3d, (16, 1, 8, 4, 2)),
        ],
        "transforms": [
            (lambda: m.func.grad(lambda x: x * x)(m.tensor(3.0)).item(), 6.0),
            (lambda: m.func.vmap(m.sum)(m.ones(2, 3)).tolist(), [3.0, 3.0]),
        ],
        "attention": [
            (attention, [[[0.5], [0.5]]]),
            (lambda: attention(is_causal=True), [[[0.0], [0.5]]]),
        ],
    }


def judged(m, ask):
    found = {}
    for feature, ((one, first), (other, second)) in uses(m).items():
        works = ask(one, first) == "available"
        more = ask(other, second) == "available"
        found[feature] = ("available" if more else "partial") if works else "absent"
    return found


@answers.right("probe")
def probe(m):
    return judged(m, asked)


@answers.wrong("probe", "checks the version")
def by_version(m):
    new = tuple(int(part) for part in m.__version__.split("+")[0].split(".")[:2]) >= (2, 1)
    return dict.fromkeys(uses(m), "available" if new else "absent")


@answers.wrong("probe", "hasattr of the parent only")
def by_parent(m):
    names = {
        "sparse": "sparse",
        "float8": "Tensor",
        "layout": "memory_format",
        "transforms": "func",
        "attention": "nn",
    }
    return {
        feature: "available" if hasattr(m, name) else "absent" for feature, name in names.items()
    }


@answers.wrong("probe", "returns available on exception")
def optimist(m):
    return judged(m, available_on_error)


@answers.wrong("probe", "catches every exception and returns a default")
def deaf(m):
    return judged(m, catches_all)


@answers.wrong("probe", "asks the installed torch and not the build")
def installed(m):
    return judged(torch, asked)


@answers.wrong("probe", "asks the first use only")
def first_use(m):
    return {feature: asked(*pair[0]) for feature, pair in uses(m).items()}


@answers.wrong("probe", "never compares the value")
def runs(m):
    return judged(m, no_value)


@answers.wrong("probe", "changes the default dtype and leaves it so")
def leaves_a_trace(m):
    found = judged(m, asked)
    torch.set_default_dtype(torch.float64)
    return found


@answers.wrong("probe", "returns the literal answer of the example in the statement")
def literal(m):
    return dict.fromkeys(uses(m), "available")


# --- expandable_segments


def segments_of(sizes, fits, of):
    segments = []
    for size in sizes:
        if not any(fits(segment, size) for segment in segments):
            segments.append(of(size))
    return segments


def segment(size):
    return 20 if size < 10 else math.ceil(size / 2) * 2


def at_least(room, size):
    return room >= size


def small_and_large(sizes):
    return 2 * any(size <= 1 for size in sizes), [size for size in sizes if size > 1]


@answers.right("expandable_segments")
def expandable_segments(sizes):
    small, large = small_and_large(sizes)
    grown = math.ceil(max(large, default=0) / 20) * 20
    return small + sum(segments_of(large, at_least, segment)), small + grown


@answers.right("expandable_segments")
def whole_floats(sizes):
    return [float(number) for number in expandable_segments(sizes)]


@answers.wrong("expandable_segments", FIRST, make=True)
def remembers():
    first = []

    def answer(sizes):
        first[:] = first or [expandable_segments(sizes)]
        return first[0]

    return answer


@answers.wrong("expandable_segments", "always smaller")
def always_smaller(sizes):
    without, grown = expandable_segments(sizes)
    return without, min(without, grown)


@answers.wrong("expandable_segments", "ignores page size")
def no_pages(sizes):
    small, large = small_and_large(sizes)
    return expandable_segments(sizes)[0], small + math.ceil(max(large, default=0))


@answers.wrong("expandable_segments", "ignores small pool")
def no_small_pool(sizes):
    grown = math.ceil(max(sizes, default=0) / 20) * 20
    return sum(segments_of(sizes, at_least, segment)), grown


@answers.wrong("expandable_segments", "never uses a freed segment again")
def always_new(sizes):
    small, large = small_and_large(sizes)
    return small + sum(map(segment, large)), expandable_segments(sizes)[1]


@answers.wrong("expandable_segments", "uses a segment of the same size only")
def exact_fit(sizes):
    small, large = small_and_large(sizes)
    made = segments_of(large, lambda room, size: room == segment(size), segment)
    return small + sum(made), expandable_segments(sizes)[1]


@answers.wrong("expandable_segments", "keeps one segment of each pool")
def one_segment(sizes):
    small, large = small_and_large(sizes)
    return small + max(map(segment, large), default=0), expandable_segments(sizes)[1]


@answers.wrong("expandable_segments", "grows by the last tensor, not by the largest")
def grows_by_the_last(sizes):
    small, large = small_and_large(sizes)
    return expandable_segments(sizes)[0], small + math.ceil((large or [0])[-1] / 20) * 20


@answers.wrong("expandable_segments", "leaves out the last tensor")
def before_the_last(sizes):
    return expandable_segments(sizes[:-1])


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (grows_by_the_last, "round the largest tensor up"),
        (no_pages, "round the largest tensor up"),
        (always_new, "used again by any later tensor"),
        (before_the_last, "before the last tensor"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_the_first_hint_on_segments_is_about_the_mistake(mistake, said, seed):
    assert said in first_hint(answers.exercises["expandable_segments"], mistake, seed)


@answers.wrong("expandable_segments", "returns the literal answer of the example in the statement")
def the_example(sizes):
    return 102, 40


# --- no_help


@answers.right("no_help")
def no_help(count):
    return list(range(count + 10, 10, -1))


@answers.right("no_help")
def small_ones(count):
    return [160 - size for size in range(count)]


@answers.wrong("no_help", "sizes that grow")
def growing(count):
    return [20 * (1 + size) for size in range(count)]


@answers.wrong("no_help", "one size again and again")
def one_size(count):
    return [20] * count


@answers.wrong("no_help", "an empty trace")
def empty(count):
    return []


@answers.right("no_help")
def halves(count):
    return tuple(60 - size / 2 for size in range(count))


@answers.wrong("no_help", "knows twelve sizes")
def twelve(count):
    return list(range(60, 48, -1))[:count]


@answers.wrong("no_help", "goes down to nothing")
def too_far(count):
    return [60 - 2 * size for size in range(count)]


@answers.wrong("no_help", "sizes that differ by less than a byte")
def nearly_one_size(count):
    return [30 + size * 1e-9 for size in range(count)]


@answers.wrong("no_help", "three sizes, however many are asked for")
def three(count):
    return [60, 40, 20]


test_answers = answers.tests()


# --- what the chapter shows


def test_growth_can_save_do_nothing_and_cost():
    grow = "expandable_segments:True"
    pairs = {tuple(s): (reserved(s, ""), reserved(s, grow)) for s in ([30, 34, 38], [60], [22])}
    assert pairs == {(30, 34, 38): (102, 40), (60,): (60, 60), (22,): (22, 40)}


@pytest.mark.parametrize(
    ("masks", "feature", "word"),
    [
        ({"sparse_csr_tensor": "wrong"}, "sparse", "partial"),
        ({"sparse_coo_tensor": "not compiled"}, "sparse", "absent"),
        ({"func": "gone"}, "transforms", "absent"),
        (
            {"nn.functional.scaled_dot_product_attention": "ignores is_causal"},
            "attention",
            "partial",
        ),
    ],
)
def test_a_masked_feature_is_missed_and_no_other(masks, feature, word):
    assert words(masks) == dict.fromkeys(words({}), "available") | {feature: word}
    assert Build(masks).__version__ == str(torch.__version__)
