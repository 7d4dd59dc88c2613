import pytest
import torch

from labkit.core.alias_keys import SLOTS_OF_ALIAS
from labkit.core.dispatch_key import RUNTIME_KEYS
from labkit.course.checks import failing_cases, outcomes, picture_of
from labkit.course.exercise import Hint
from tests.course.answers import Answers

answers = Answers("dispatch_table")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"

# --- key_set_arithmetic

PER_BACKEND = (1, 5, 8, 9, 10, 21)
BACKEND_BITS = (1 << 16) - 1


def difference(a, b):
    return a & ~(b & ~BACKEND_BITS)


def slot(word, per_backend=PER_BACKEND, first_bit=16):
    functionality = (word >> first_bit).bit_length()
    index = functionality + 15 * sum(f < functionality for f in PER_BACKEND)
    backend = max((word & BACKEND_BITS).bit_length() - 1, 0)
    return index + (backend if functionality in per_backend else 0)


def slots(word):
    found = []
    for feature in range(1, 47):
        if word >> 15 + feature & 1:
            first = slot(1 << 15 + feature)
            backends = [b for b in range(16) if word >> b & 1]
            found += [first + b for b in backends] if feature in PER_BACKEND else [first]
    return found


answers.right("key_set_arithmetic")((difference, slot, slots))


def undefined_without_backend(word):
    functionality = (word >> 16).bit_length()
    return slot(word) if functionality not in PER_BACKEND or word & BACKEND_BITS else 0


def backend_everywhere(word):
    return slot(word, per_backend=range(1, 47))


def one_bit_off(word):
    return slot(word, first_bit=15)


def one_slot_each(word):
    functionality = (word >> 16).bit_length()
    return functionality + slot(word) - slot(word & ~BACKEND_BITS)


def winners_backend(word):
    """One slot for each feature: that of the highest backend."""
    backend = (word & BACKEND_BITS).bit_length()
    return slots(word & ~BACKEND_BITS | (1 << backend >> 1))


def slots_without_backend(word):
    return slots(word if word & BACKEND_BITS else word | 1)


def asks_labkit(word):
    from labkit.core.dispatch_key_set import DispatchKeySet

    return DispatchKeySet.from_raw_repr(word).table_index()


def asks_torch(a, b):
    return (
        torch._C.DispatchKeySet.from_raw_repr(a) - torch._C.DispatchKeySet.from_raw_repr(b)
    ).raw_repr()


for why, answer in [
    ("removal clears backend bits", (lambda a, b: a & ~b, slot, slots)),
    ("takes out the wrong bits", (lambda a, b: a ^ (b & ~BACKEND_BITS), slot, slots)),
    ("removal clears backend bits", (lambda a, b: a & ~(b | BACKEND_BITS), slot, slots)),
    ("adds the backend to a feature with one slot", (difference, backend_everywhere, slots)),
    ("off by one from the bit without Undefined", (difference, one_bit_off, slots)),
    ("no backend bit means Undefined slot", (difference, undefined_without_backend, slots)),
    ("counts one slot for each feature below", (difference, one_slot_each, slots)),
    ("iteration skips per-backend expansion", (difference, slot, winners_backend)),
    ("a feature without a backend has a slot", (difference, slot, slots_without_backend)),
    ("all sixteen slots of a feature", (difference, slot, lambda word: slots(word | 0xFFFF))),
    ("the highest slot first", (difference, slot, lambda word: slots(word)[::-1])),
    (BANNED, (difference, asks_labkit, slots)),
    (BANNED, (asks_torch, slot, slots)),
    (CONSTANT, (difference, lambda word: 96, slots)),
    (CONSTANT, (difference, slot, lambda word: [1, 96])),
]:
    answers.wrong("key_set_arithmetic", why)(answer)


@answers.wrong("key_set_arithmetic", FIRST, make=True)
def remembers_the_first_slot():
    seen = []

    def first(word):
        seen.append(slot(word))
        return seen[0]

    return difference, first, slots


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((lambda a, b: a & ~b, slot, slots), "lost a backend bit"),
        ((lambda a, b: a ^ (b & ~BACKEND_BITS), slot, slots), "still has a feature"),
        ((difference, backend_everywhere, slots), "a feature that has one slot"),
        ((difference, undefined_without_backend, slots), "No backend bit is set"),
        ((difference, one_bit_off, slots), "Count the slots before"),
        ((difference, slot, lambda word: slots(word)[::-1]), "the lowest first"),
        ((difference, slot, winners_backend), "Go through the features"),
    ],
)
def test_a_wrong_word_or_slot_gets_the_hint_about_it_and_words_in_hex(wrong, said):
    exercise = answers.exercises["key_set_arithmetic"]
    failures = next(one for one in outcomes(exercise, wrong, 11) if one.failures).failures
    hints = [hint for hint in exercise.hints if isinstance(hint, Hint)]
    assert said in next(hint.text for hint in hints if hint.fits(failures[0]))
    assert "0x" in failures[0].got and "0x" in failures[0].expected


@pytest.mark.parametrize("number_without", [0, "the slot before"])
def test_a_word_without_a_backend_bit_fails_in_the_stage_of_that_name(number_without):
    def slot_of(word):
        right = slot(word)
        return right if word & BACKEND_BITS else 0 if number_without == 0 else right - 1

    found = outcomes(answers.exercises["key_set_arithmetic"], (difference, slot_of, slots), 11)
    named = next(outcome for outcome in found if outcome.name == "no backend bit")
    assert named.state == "wrong"


# --- fill_the_row

SLOTS = [str(key) for key in RUNTIME_KEYS]
ALIASES = {str(alias): {str(key) for key in keys} for alias, keys in SLOTS_OF_ALIAS.items()}
NO_MAP = ("HIP", "VE", "MTIA")
OTHER = ("FPGA", "Vulkan", "Metal", "CustomRNGKeyId", "MkldnnCPU", "Sparse", "SparseCsr",
         "Quantized")  # fmt: skip
BACKENDS = [slot.removeprefix("Sparse") for slot in SLOTS if slot.startswith("Sparse")][:16]
UNDEFINED_TOO = ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd",
                 "CompositeImplicitAutograd")  # fmt: skip


def watched(slot, no_map=NO_MAP):
    """The backend keys whose kernels an autograd slot defers to."""
    if slot == "AutogradNestedTensor":
        return {f"NestedTensor{backend}" for backend in BACKENDS}
    if slot == "AutogradOther":
        alone = set(OTHER[:5])
        return alone | {f"{kind}{backend}" for kind in OTHER[5:] for backend in BACKENDS}
    backend = slot.removeprefix("Autograd")
    return {backend} if slot.startswith("Autograd") and backend not in no_map else set()


def cell_of(slot, kernels, fallbacks, *, no_map=NO_MAP, asks_rule_4=True, ambiguity=True):
    def fills(alias):
        extra = slot == "Undefined" and alias in UNDEFINED_TOO
        return alias in kernels and (slot in ALIASES[alias] or extra)

    if slot in kernels:
        return kernels[slot], "kernel"
    for alias in ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd"):
        if fills(alias):
            return kernels[alias], "default backend kernel"
    if fills("CompositeImplicitAutogradNestedTensor"):
        return kernels["CompositeImplicitAutogradNestedTensor"], "nested kernel"
    has_own = watched(slot, no_map) & kernels.keys()
    if fills("CompositeImplicitAutograd"):
        if slot == "AutogradOther" and has_own and ambiguity:
            return ("ambiguous_autogradother", False), "ambiguous autogradother"
        if not asks_rule_4 or not (has_own or "CompositeExplicitAutograd" in kernels):
            return kernels["CompositeImplicitAutograd"], "math kernel"
    if fills("Autograd"):
        return kernels["Autograd"], "autograd kernel"
    if fills("FuncTorchBatchedDecomposition"):
        return kernels["FuncTorchBatchedDecomposition"], "batched kernel"
    return (fallbacks[slot], "backend fallback") if slot in fallbacks else None


def printed(kernel, reason):
    name, skips = kernel
    return f"{'fallthrough ' if skips else ''}{name} [{reason}]"


def row(registrations, fallbacks, prints=printed, **changed):
    kernels = {key: (kernel, skips) for key, kernel, skips in registrations}
    cells = {slot: cell_of(slot, kernels, fallbacks, **changed) for slot in SLOTS}
    return {slot: prints(*cell) for slot, cell in cells.items() if cell}


@answers.right("fill_the_row")
def fill_the_row(registrations, fallbacks):
    return row(registrations, fallbacks)


@answers.wrong("fill_the_row", "newest registration wins across keys")
def newest_across_keys(registrations, fallbacks):
    filled = row(registrations, fallbacks)
    for key, kernel, skips in registrations:
        for slot in {key} & set(SLOTS) or ALIASES.get(key, set()):
            filled[slot] = printed((kernel, skips), filled.get(slot, " [kernel]").split(" [")[-1])
            filled[slot] = filled[slot].rstrip("]") + "]"
    return filled


@answers.wrong("fill_the_row", "composite implicit even with a backend kernel")
def never_asks_rule_4(registrations, fallbacks):
    return row(registrations, fallbacks, asks_rule_4=False)


@answers.wrong("fill_the_row", "forgets the three missing backends of the autograd map")
def every_backend_mapped(registrations, fallbacks):
    return row(registrations, fallbacks, no_map=())


@answers.wrong("fill_the_row", "prints fallthrough as a kernel")
def without_fallthrough(registrations, fallbacks):
    return row(registrations, fallbacks, lambda kernel, reason: f"{kernel[0]} [{reason}]")


@answers.wrong("fill_the_row", "AutogradOther ambiguity ignored")
def without_ambiguity(registrations, fallbacks):
    return row(registrations, fallbacks, ambiguity=False)


# --- the small steps


@answers.right("word_of")
def word_of_pair(backend, feature):
    return 1 << backend | 1 << (16 + feature)


for why, answer in [
    ("puts the feature at its own number", lambda backend, feature: 1 << backend | 1 << feature),
    (
        "multiplies where it should shift",
        lambda backend, feature: backend * 1 | (16 + feature) * 2,
    ),
    ("swaps backend and feature", lambda backend, feature: 1 << feature | 1 << (16 + backend)),
    ("returns the feature's bit alone", lambda backend, feature: 1 << (16 + feature)),
]:
    answers.wrong("word_of", why)(answer)


@answers.right("steps_aside")
def steps_aside(slot, keys):
    return slot.startswith("Autograd") and slot.removeprefix("Autograd") in keys


for why, answer in [
    (
        "steps aside for any backend's kernel",
        lambda slot, keys: slot.startswith("Autograd") and bool({"CPU", "CUDA", "Meta"} & {*keys}),
    ),
    ("asks for a kernel at the slot itself", lambda slot, keys: slot in keys),
    ("steps aside in a dense slot too", lambda slot, keys: slot.removeprefix("Autograd") in keys),
    ("never steps aside", lambda slot, keys: False),
]:
    answers.wrong("steps_aside", why)(answer)

DENSE = ("CPU", "CUDA", "Meta")
EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"


def small_row_with(
    aside=lambda slot, kernels: EXPLICIT in kernels or slot[8:] in kernels,
    explicit_fills=DENSE,
    autograd_first=False,
    fallback_first=False,
    autograd_fills=lambda slot: slot.startswith("Autograd"),
):
    def one(slot, kernels, fallbacks):
        if fallback_first and slot in fallbacks:
            return fallbacks[slot]
        if slot in kernels:
            return kernels[slot]
        if EXPLICIT in kernels and slot in explicit_fills:
            return kernels[EXPLICIT]
        autograd = "Autograd" in kernels and autograd_fills(slot)
        if autograd and autograd_first:
            return kernels["Autograd"]
        if IMPLICIT in kernels and not (slot.startswith("Autograd") and aside(slot, kernels)):
            return kernels[IMPLICIT]
        return kernels["Autograd"] if autograd else fallbacks.get(slot)

    def row(kernels, fallbacks):
        cells = {slot: one(slot, kernels, fallbacks) for slot in SIX}
        return {slot: kernel for slot, kernel in cells.items() if kernel is not None}

    return row


SIX = (*DENSE, *(f"Autograd{backend}" for backend in DENSE))
answers.right("small_row")(small_row_with())
for why, answer in [
    ("the formula never steps aside", small_row_with(aside=lambda slot, kernels: False)),
    (
        "steps aside for the backend's kernel only",
        small_row_with(aside=lambda slot, kernels: slot[8:] in kernels),
    ),
    ("the explicit kernel fills autograd slots too", small_row_with(explicit_fills=SIX)),
    ("asks Autograd before the formula", small_row_with(autograd_first=True)),
    ("the fallback comes first", small_row_with(fallback_first=True)),
    ("fills Autograd into every slot", small_row_with(autograd_fills=lambda slot: True)),
]:
    answers.wrong("small_row", why)(answer)


def hints_that_fit(name, wrong):
    """The hints about the first failure of an answer."""
    exercise = answers.exercises[name]
    failure = next(one for one in outcomes(exercise, wrong, 11) if one.failures).failures[0]
    hints = [hint for hint in exercise.hints if isinstance(hint, Hint)]
    return [hint.text for hint in hints if hint.fits(failure)]


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("word_of", lambda b, f: 1 << b | 1 << 15 + f, "The backend's bit is there"),
        ("word_of", lambda b, f: 1 << b | 1 << f, "The backend's bit is there"),
        ("word_of", lambda b, f: 1 << b + 1 | 1 << 16 + f, "The feature's bit is there"),
        ("steps_aside", lambda slot, keys: slot.removeprefix("Autograd") in keys, "no autograd"),
        ("steps_aside", lambda slot, keys: slot.startswith("Autograd"), "no kernel at the backend"),
        (
            "key_set_arithmetic",
            (lambda a, b: a & ~(b | BACKEND_BITS), slot, slots),
            "lost a backend",
        ),
        ("small_row", small_row_with(aside=lambda slot, kernels: False), "steps aside for its"),
        ("small_row", small_row_with(autograd_first=True), "Step 6 comes before step 7"),
        ("small_row", small_row_with(autograd_fills=lambda slot: True), "Step 7 is for autograd"),
        ("small_row", small_row_with(explicit_fills=SIX), "and no autograd slot"),
    ],
)
def test_the_hint_about_the_fault_fits_and_no_other(name, wrong, said):
    fitting = hints_that_fit(name, wrong)
    assert said in fitting[0]
    assert len(fitting) == 1 or name == "small_row"


def test_the_backend_alone_fails_in_the_stage_about_explicit_kernels():
    wrong = small_row_with(aside=lambda slot, kernels: slot[8:] in kernels)
    found = outcomes(answers.exercises["small_row"], wrong, 11)
    assert next(outcome.name for outcome in found if outcome.state == "wrong").endswith("explicit")


@pytest.mark.parametrize(
    ("name", "wrong", "slot"),
    [
        ("small_row", small_row_with(autograd_first=True), "AutogradC"),
        ("fill_the_row", without_ambiguity, "AutogradOther"),
    ],
)
def test_the_row_is_drawn_at_the_first_wrong_cell(name, wrong, slot):
    exercise = answers.exercises[name]
    evidence = failing_cases(exercise, wrong, 11, search=False)[0]
    drawn = picture_of(exercise, evidence)
    assert drawn.table["cells"][drawn.cell]["slot"].startswith(slot)


def test_the_examples_of_the_tasks_are_right():
    assert word_of_pair(1, 2) == 2 + 262_144
    assert slot(1 | 1 << 16 | 1 << 36) == 96 == SLOTS.index("AutogradCPU")
    assert fill_the_row([("CPU", "k", False)], {}) == {"CPU": "k [kernel]"}


test_answers = answers.tests()
