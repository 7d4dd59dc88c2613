"""The small steps of the dispatch table's chapter: one word, one question, a row of six slots."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.core.dispatch_key import DispatchKey
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.table import compute_cell

BACKENDS = ("CPU", "CUDA", "Meta")
AUTOGRAD_SLOTS = tuple(f"Autograd{backend}" for backend in BACKENDS)
SIX = (*BACKENDS, *AUTOGRAD_SLOTS)
EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"


def _a_key(rng: Rng, size: int) -> tuple[int, int]:
    return rng.randint(0, min(15, 1 + 2 * size)), rng.randint(0, min(46, 1 + 6 * size))


def _word(backend: int, feature: int) -> int:
    return 1 << backend | 1 << 16 + feature


def _has_bits(evidence: Any) -> tuple[bool, bool]:
    """Whether the answer has the backend's bit, and the feature's."""
    backend, feature = evidence.inputs
    return bool(evidence.value >> backend & 1), bool(evidence.value >> 16 + feature & 1)


word_of = Exercise(
    id="dispatch_table.word_of",
    case=_a_key,
    expected=_word,
    rung="warm-up",
    rules=("arithmetic only: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    cases=120,
    minutes=3,
    hints=(
        Hint(
            "The backend's bit is there. Feature 0 sits at bit 16, feature 1 at bit 17.",
            when=lambda evidence: _has_bits(evidence) == (True, False),
        ),
        Hint(
            "The feature's bit is there. Backend n sits at bit n: 1 << n.",
            when=lambda evidence: _has_bits(evidence) == (False, True),
        ),
        "Two numbers with one bit each, joined by |. In Python, + binds before <<.",
    ),
    must_fail=(
        "puts the feature at its own number",
        "multiplies where it should shift",
        "swaps backend and feature",
        "returns the feature's bit alone",
    ),
)


def _a_question(rng: Rng, size: int) -> tuple[str, list[str]]:
    keys = (*SIX, "Autograd", IMPLICIT)
    slot = rng.choice(AUTOGRAD_SLOTS if rng.chance(0.7) else SIX)
    return slot, rng.sample(keys, rng.randint(0, min(5, 1 + size)))


def _stands_aside(slot: str, keys: list[str]) -> bool:
    return slot in AUTOGRAD_SLOTS and slot.removeprefix("Autograd") in keys


steps_aside = Exercise(
    id="dispatch_table.steps_aside",
    case=_a_question,
    expected=_stands_aside,
    rung="warm-up",
    rules=("strings only: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    cases=160,
    minutes=4,
    hints=(
        Hint(
            "{input}: this is no autograd slot. The formula steps aside in autograd slots only.",
            when=lambda evidence: evidence.inputs[0] not in AUTOGRAD_SLOTS,
        ),
        Hint(
            "{input}: no kernel at the backend of this slot, so the formula stays.",
            when=lambda evidence: evidence.inputs[0] in AUTOGRAD_SLOTS and not evidence.right,
        ),
        "AutogradCUDA asks for a kernel at CUDA: cut the word Autograd off, look up the rest.",
    ),
    must_fail=(
        "steps aside for any backend's kernel",
        "asks for a kernel at the slot itself",
        "steps aside in a dense slot too",
        "never steps aside",
    ),
)


Kernels = dict[str, str]


def _row_of(
    keys: Sequence[str], fallbacks: bool = False
) -> Callable[[Rng, int], tuple[Kernels, Kernels]]:
    """Operators with kernels at some of these keys."""

    def case(rng: Rng, size: int) -> tuple[Kernels, Kernels]:
        chosen = rng.sample(keys, rng.randint(0, min(len(keys), 1 + size)))
        everywhere = rng.sample(SIX, rng.randint(0, size // 2)) if fallbacks else []
        return (
            {key: f"kernel at {key}" for key in chosen},
            {slot: f"fallback of {slot}" for slot in everywhere},
        )

    return case


def _filled(kernels: Kernels, fallbacks: Kernels) -> Kernels:
    own = {DispatchKey[key]: Kernel(None, name) for key, name in kernels.items()}
    everywhere = {DispatchKey[slot]: Kernel(None, name) for slot, name in fallbacks.items()}
    found = {slot: compute_cell(DispatchKey[slot], own, everywhere).kernel for slot in SIX}
    return {slot: kernel.debug for slot, kernel in found.items() if kernel is not None}


def drawn_row(
    kernels: Sequence[tuple[str, Kernel]],
    fallbacks: Mapping[str, Kernel],
    slot: str,
    slots: Sequence[str] = (),
) -> Any:
    """The table of an operator with these kernels, oldest first, or some slots, opened at one."""
    from labkit import show

    dispatcher = Dispatcher(bare=True)
    dispatcher.fallbacks = {DispatchKey[key]: kernel for key, kernel in fallbacks.items()}
    op = dispatcher._operator("yours::expected")
    for key, kernel in kernels:
        op.register(DispatchKey[key], kernel)
    return show.dispatch_table(op, slot, slots)


def _first_wrong_cell(case: Case, got: Any, right: Any) -> Any:
    wrong = next(slot for slot in SIX if got.get(slot) != right.get(slot))
    kernels, fallbacks = (
        {key: Kernel(None, name) for key, name in given.items()} for given in case.inputs
    )
    return drawn_row(list(kernels.items()), fallbacks, wrong, SIX)


def _wrong(evidence: Any, key: str, instead_of: str = "", slots: Sequence[str] = SIX) -> bool:
    """Whether the kernel at this key stands wrongly in one of the slots, instead of another's."""
    kernel, other = (evidence.inputs[0].get(name) for name in (key, instead_of))
    wrong = [slot for slot in slots if evidence.value.get(slot) != evidence.right.get(slot)]
    there = [slot for slot in wrong if kernel is not None and evidence.value.get(slot) == kernel]
    return any(not instead_of or evidence.right.get(slot) == other for slot in there)


small_row = Exercise(
    id="dispatch_table.small_row",
    case=_row_of((*SIX, "Autograd", EXPLICIT, IMPLICIT), fallbacks=True),
    expected=_filled,
    rules=("dicts and strings only: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    picture=_first_wrong_cell,
    stages=(
        Stage("own slot", case=_row_of(SIX)),
        Stage("explicit", case=_row_of((*BACKENDS, EXPLICIT))),
        Stage("implicit", case=_row_of((*AUTOGRAD_SLOTS, IMPLICIT))),
        Stage("autograd", case=_row_of((*SIX, "Autograd"))),
        Stage("steps aside for its backend", case=_row_of((*SIX, IMPLICIT))),
        Stage("steps aside for explicit", case=_row_of(("CPU", EXPLICIT, IMPLICIT))),
        Stage("with fallbacks"),
    ),
    cases=240,
    minutes=12,
    hints=(
        Hint(
            "In an autograd slot the formula steps aside for its backend's kernel, and for a "
            "CompositeExplicitAutograd one.",
            when=lambda evidence: _wrong(evidence, IMPLICIT, slots=AUTOGRAD_SLOTS),
        ),
        Hint(
            "Step 6 comes before step 7: where the formula does not step aside, it fills an "
            "autograd slot before the kernel at Autograd can.",
            when=lambda evidence: _wrong(evidence, "Autograd", IMPLICIT, AUTOGRAD_SLOTS),
        ),
        Hint(
            "Step 7 is for autograd slots: the kernel at Autograd fills no other.",
            when=lambda evidence: _wrong(evidence, "Autograd", slots=BACKENDS),
        ),
        Hint(
            "CompositeExplicitAutograd fills CPU, CUDA and Meta, and no autograd slot: it comes "
            "before the formula there.",
            when=lambda evidence: (
                _wrong(evidence, EXPLICIT) or _wrong(evidence, IMPLICIT, EXPLICIT, BACKENDS)
            ),
        ),
        Hint(
            "A slot that nothing fills is left out of the result.",
            when=lambda evidence: evidence.value.keys() > evidence.right.keys(),
        ),
        "For each of the six slots go through the steps in order, and stop at the first kernel.",
    ),
    must_fail=(
        "the formula never steps aside",
        "steps aside for the backend's kernel only",
        "the explicit kernel fills autograd slots too",
        "asks Autograd before the formula",
        "the fallback comes first",
        "fills Autograd into every slot",
    ),
)
