"""Dispatch tables: key sets as words, and the steps that fill an operator's row."""

import re
from collections.abc import Sequence
from typing import Any

from labkit.core.dispatch_key import FUNCTIONALITIES, RUNTIME_KEYS, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet, keyset, slot_of_bits
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._never_right import BANNED, CONSTANT, FIRST, READS
from labkit.course.exercises._row_steps import drawn_row, small_row, steps_aside, word_of
from labkit.dispatch import torch_tables
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.table import AMBIGUOUS, Cell, compute_table
from labkit.dispatch.torch_keys import from_torch, layout, to_torch

NOTEBOOK = "3_internals/2_dispatch_table"
K = DispatchKey


# --- key_set_arithmetic

Step = tuple[str, int]
SLOTS = ("slot", "slots")
"""What may be asked about a word: the winner's slot, and the slots of all its keys."""
Expression = tuple[int, list[Step], tuple[str, ...]]


def _words_of(keys: Sequence[DispatchKey], *kinds: str, slots: tuple[str, ...] = SLOTS) -> Any:
    """Steps of these kinds over sets of these keys; `slots`: what is asked of each word."""
    bare = [key for key in keys if key.backend_bit < 0] or keys

    def case(rng: Rng, size: int) -> Expression:
        drawn = bare if rng.chance(0.15) else keys  # now and then no backend bit at all

        def word() -> int:
            return DispatchKeySet(*[rng.choice(drawn) for _ in range(rng.randint(0, 4))]).raw

        start = word()
        many = 1 + 2 * size * size if kinds else 0
        return start, [(rng.choice(kinds), word()) for _ in range(many)], slots

    return case


def _keys() -> list[DispatchKey]:
    """Keys as PyTorch numbers them here; also features alone, which bring no backend bit."""
    keys = [key for key in RUNTIME_KEYS[1:] if key not in layout().absent]
    return [*keys, *(key for key in FUNCTIONALITIES if key.is_per_backend)]


ALL_KEYS = _keys()
LONE = [key for key in ALL_KEYS if key in FUNCTIONALITIES and not key.is_per_backend]
SEVERAL = [key for key in FUNCTIONALITIES if key.is_per_backend]
ORDINARY = [key for key in ALL_KEYS if key not in FUNCTIONALITIES]


@handed_out
def _hex(word: Any) -> Any:
    """A word as the chapter writes it; anything else as it is."""
    return hex(word) if isinstance(word, int) else word


def _drive_words(
    answer: Any, start: int, steps: list[Step], slots: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The word after every step, and its slots; joining two sets needs no answer."""
    difference, *rest = answer
    functions = dict(zip(SLOTS, rest, strict=True))
    word, seen = start, []
    for kind, operand in [("start", 0), *steps]:
        word = difference(word, operand) if kind == "difference" else word | operand
        seen.append({"after": kind, "word": _hex(word)})
        seen[-1] |= {name: functions[name](word) for name in slots}
    return seen


def _real_words(start: int, steps: list[Step], slots: tuple[str, ...]) -> list[dict[str, Any]]:
    """The same with PyTorch's own class."""
    real = to_torch(keyset(start))
    seen: list[dict[str, Any]] = []
    for kind, operand in [("start", 0), *steps]:
        other = to_torch(keyset(operand))
        real = real - other if kind == "difference" else real | other
        word = from_torch(real).raw
        right = {"slot": slot_of_bits(word), "slots": _slots_of_its_keys(real)}
        seen.append({"after": kind, "word": hex(word), **{name: right[name] for name in slots}})
    return seen


def _slots_of_its_keys(real: Any) -> list[int]:
    """The slots of the keys that PyTorch's own loop over a set finds, in its order."""
    names = re.findall(r"\w+", repr(real).partition("(")[2])
    return [slot_of_bits(DispatchKeySet(DispatchKey[name]).raw) for name in names]


def _fewer_steps(start: int, steps: list[Step], slots: tuple[str, ...]) -> Any:
    for gone in range(len(steps)):
        yield start, steps[:gone] + steps[gone + 1 :], slots
    if start:
        yield start & (start - 1), steps, slots
    for at, (kind, operand) in enumerate(steps):
        if operand:
            yield start, [*steps[:at], (kind, operand & (operand - 1)), *steps[at + 1 :]], slots


def _show_expression(start: int, steps: list[Step], slots: tuple[str, ...]) -> str:
    words = [f"start {start:#x}", *(f"{kind} {operand:#x}" for kind, operand in steps)]
    return ", then ".join([*words, *(f"{name}_of" for name in slots)])


def _first_difference(evidence: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    pairs = zip(evidence.value, evidence.right, strict=True)
    return next((got, right) for got, right in pairs if got != right)


def _wrong_bits(evidence: Any) -> int:
    got, right = _first_difference(evidence)
    return int(got["word"], 16) ^ int(right["word"], 16)


def _lost_backends(evidence: Any) -> bool:
    return _wrong_bits(evidence) & 0xFFFF != 0


def _wrong_features(evidence: Any) -> bool:
    return _wrong_bits(evidence) >> 16 != 0


def _wrong_slot(evidence: Any) -> tuple[int, int, int]:
    """(the word, the slot of the answer, the right slot), where the word is right."""
    got, right = _first_difference(evidence)
    if got["word"] != right["word"]:
        raise ValueError("the word is wrong")
    return int(right["word"], 16), got["slot"], right["slot"]


def _added_a_backend(evidence: Any) -> bool:
    word, got, right = _wrong_slot(evidence)
    winner = FUNCTIONALITIES[(word >> 16).bit_length() - 1]
    highest = (word & 0xFFFF).bit_length() - 1
    return not winner.is_per_backend and got - right == highest > 0


def _no_backend_bit(evidence: Any) -> bool:
    word, got, right = _wrong_slot(evidence)
    return word & 0xFFFF == 0 and (right == 0 or got in (0, right - 1))


def _another_slot(evidence: Any) -> bool:
    _, got, right = _wrong_slot(evidence)
    return got != right


def _slots_in_another_order(evidence: Any) -> bool:
    got, right = _first_difference(evidence)
    return bool(got["slots"] != right["slots"] and sorted(got["slots"]) == right["slots"])


key_set_arithmetic = Exercise(
    id="dispatch_table.key_set_arithmetic",
    rules=("integers only: no torch, no labkit",),
    case=_words_of(ALL_KEYS, "|", "difference"),
    expected=_real_words,
    drive=_drive_words,
    smaller=_fewer_steps,
    show=_show_expression,
    cases=100,
    stages=(
        Stage("difference", case=_words_of(ORDINARY, "difference", slots=())),
        Stage("one slot", case=_words_of(LONE, slots=("slot",))),
        Stage("sixteen slots", case=_words_of(ORDINARY, slots=("slot",))),
        Stage("no backend bit", case=_words_of(SEVERAL, slots=("slot",))),
        Stage("every slot", case=_words_of(ALL_KEYS, slots=("slots",))),
        Stage("together"),
    ),
    minutes=15,
    banned=("torch.*", "labkit.*", "torch._C.DispatchKeySet"),
    hints=(
        Hint(
            "The word has lost a backend bit. They belong to all features together, so a "
            "difference takes none of them: take only bits 16 and up of b out of a.",
            when=_lost_backends,
        ),
        Hint(
            "The word still has a feature that b has, or has lost one that b lacks. `a & ~x` is "
            "a without the bits of x.",
            when=_wrong_features,
        ),
        Hint(
            "You added the backend to a feature that has one slot. Only those in PER_BACKEND "
            "have sixteen.",
            when=_added_a_backend,
        ),
        Hint(
            "No backend bit is set in this word. Then it is slot 0 without a feature, and else the "
            "first of the feature's slots.",
            when=_no_backend_bit,
        ),
        Hint(
            "Count the slots before the winner's: slot 0, one for each lower feature, and fifteen "
            "more for each lower one in PER_BACKEND. Feature f is bit 15 + f.",
            when=_another_slot,
        ),
        Hint(
            "slots_of lists the right slots in another order: the lowest first.",
            when=_slots_in_another_order,
        ),
        Hint(
            "Go through the features whose bit is set, lowest first. One in PER_BACKEND gives a "
            "slot for each backend bit of the word, none without a backend bit; another gives one.",
            stage="every slot",
        ),
        "Do one word by hand: 0x1000010001 is {CPU, AutogradCPU}. Three bits, not four.",
    ),
    must_fail=(
        "removal clears backend bits",
        "takes out the wrong bits",
        "adds the backend to a feature with one slot",
        "counts one slot for each feature below",
        "off by one from the bit without Undefined",
        "no backend bit means Undefined slot",
        "iteration skips per-backend expansion",
        "a feature without a backend has a slot",
        "all sixteen slots of a feature",
        "the highest slot first",
        BANNED,
        FIRST,
        CONSTANT,
    ),
)


# --- fill_the_row

Registration = tuple[str, str, bool]


def _text(debug: str, reason: str, skips: bool) -> str:
    """A cell as PyTorch prints it."""
    return f"{'fallthrough ' if skips else ''}{debug} [{reason}]"


def _text_of_cell(cell: Cell) -> str:
    if cell.reason == AMBIGUOUS:
        return _text("ambiguous_autogradother", AMBIGUOUS, False)
    kernel = cell.kernel
    return "" if kernel is None else _text(kernel.debug, cell.reason, kernel.is_fallthrough)


def _shipped(name: str) -> Case:
    listed = torch_tables.registrations(name)
    registrations = [
        (str(entry.key), entry.kernel.debug, entry.kernel.is_fallthrough)
        for entry in reversed(listed)  # PyTorch lists the newest first
    ]
    fallbacks = {
        str(slot): (kernel.debug, kernel.is_fallthrough)
        for slot, kernel in torch_tables.global_fallbacks().items()
    }
    table = torch_tables.table_of(name)
    truth = {str(slot): _text(*cell) for slot, cell in table.items()}
    return Case((registrations, fallbacks), truth=truth)


def _random_program(rng: Rng, size: int) -> Case:
    aliases = [key for key in K if key.is_alias]
    autograd = [
        key for key in RUNTIME_KEYS if key.functionality is K.AutogradFunctionality
    ] + [K.AutogradOther, K.AutogradNestedTensor]  # fmt: skip
    few = [K.CPU, K.CUDA, K.HIP, K.VE, K.MTIA, K.SparseCPU, K.QuantizedCPU, K.NestedTensorCPU]
    registrations: list[Registration] = []
    for number in range(rng.randint(0, 1 + size)):
        group = rng.choice((aliases, aliases, few, few, autograd, RUNTIME_KEYS[1:]))
        skips = rng.chance(0.12)
        registrations.append((str(rng.choice(group)), f"kernel {number}", skips))
    chosen = rng.sample(RUNTIME_KEYS[1:], rng.randint(0, 2 + 3 * size))
    fallbacks = {str(slot): (f"fallback of {slot}", rng.chance(0.4)) for slot in chosen}
    return Case((registrations, fallbacks), truth=_printed(registrations, fallbacks))


def _printed(registrations: list[Registration], fallbacks: dict[str, Any]) -> dict[str, str]:
    """Slot -> text of every cell that is not empty."""
    kernels = {DispatchKey[key]: _kernel(debug, skips) for key, debug, skips in registrations}
    everywhere = {DispatchKey[slot]: _kernel(*fallback) for slot, fallback in fallbacks.items()}
    table = compute_table(kernels, everywhere)
    texts = {str(slot): _text_of_cell(cell) for slot, cell in zip(RUNTIME_KEYS, table, strict=True)}
    return {slot: text for slot, text in texts.items() if text}


def _kernel(debug: str, skips: bool) -> Kernel:
    return Kernel(None, debug, "fallthrough" if skips else "unknown")


def _an_operator(rng: Rng, size: int) -> Case:
    if size and rng.chance(0.375):
        return _a_shipped_operator(rng, size)
    return _random_program(rng, size)


def _a_shipped_operator(rng: Rng, size: int) -> Case:
    return _shipped(rng.choice(torch_tables.operator_names()))


def _without_alias(registrations: list[Registration], fallbacks: dict[str, Any]) -> bool:
    return not any(DispatchKey[key].is_alias for key, _, _ in registrations)


def _judge_row(case: Case, got: Any) -> Any:
    if not isinstance(got, dict):
        return "a dict is returned: slot -> text, empty slots left out"
    for slot in [str(slot) for slot in RUNTIME_KEYS]:
        if got.get(slot) != case.truth.get(slot):
            right = case.truth.get(slot)
            return Wrong(f"the first wrong cell is {slot}: {got.get(slot)!r}", right)
    if extra := sorted(map(str, got.keys() - case.truth.keys())):
        return f"no slot is called {extra[0]!r}"
    return None


def _opened_at_the_first_wrong_cell(case: Case, got: Any, _right: Any) -> Any:
    """The right row, with the steps asked about the first cell that the answer has otherwise."""
    registrations, fallbacks = case.inputs
    right = _printed(registrations, fallbacks)
    wrong = [slot for slot in map(str, RUNTIME_KEYS) if got.get(slot) != right.get(slot)]
    kernels = [(key, _kernel(debug, skips)) for key, debug, skips in registrations]
    everywhere = {slot: _kernel(*fallback) for slot, fallback in fallbacks.items()}
    return drawn_row(kernels, everywhere, wrong[0])


def _show_program(registrations: list[Registration], fallbacks: dict[str, Any]) -> str:
    lines = [f"{'fallthrough' if skips else debug} at {key}" for key, debug, skips in registrations]
    few = f"global fallbacks {fallbacks}" if len(fallbacks) < 4 else f"{len(fallbacks)} fallbacks"
    return f"{'; '.join(lines) or 'no registration'}; {few}"


def _at(*slots: str) -> Any:
    return lambda evidence: evidence.property.startswith(
        tuple(f"the first wrong cell is {slot}:" for slot in slots)
    )


fill_the_row = Exercise(
    id="dispatch_table.fill_the_row",
    rung="boss",
    rules=("work the steps out yourself: nothing of labkit.dispatch, no dump of torch",),
    case=_an_operator,
    judge=_judge_row,
    show=_show_program,
    picture=_opened_at_the_first_wrong_cell,
    cases=200,
    stages=(
        Stage("no alias", only=_without_alias),
        Stage("real operators", case=_a_shipped_operator),
        Stage("all ten steps"),
    ),
    minutes=35,
    banned=(
        "labkit.dispatch.*",
        "labkit.conformance.*",
        "labkit.core.alias_keys.*",
    ),
    hints=(
        Hint(
            "{input}: the first wrong cell is the autograd slot of a backend whose autograd map "
            "is empty. PyTorch's map forgets three backends: HIP, VE and MTIA. Their autograd "
            "slots never see a backend kernel.",
            when=_at("AutogradHIP", "AutogradVE", "AutogradMTIA"),
        ),
        Hint(
            "AutogradOther watches eight kinds of kernel. If one of them has a "
            "kernel and there is a composite implicit one, nobody knows which to run.",
            when=_at("AutogradOther"),
        ),
        Hint(
            "Is the cell a fallthrough? It is printed as one, in front of the kernel's name.",
            when=lambda evidence: "fallthrough" in evidence.expected,
        ),
        "Follow the steps in order and stop at the first hit. The order of registration decides "
        "only between kernels of one key.",
        "Step 4 is a question, not a cell: does the backend list of this autograd slot contain a "
        "key that has a kernel? A composite explicit kernel answers yes for all of them.",
    ),
    must_fail=(
        "newest registration wins across keys",
        "composite implicit even with a backend kernel",
        "forgets the three missing backends of the autograd map",
        "prints fallthrough as a kernel",
        "AutogradOther ambiguity ignored",
        FIRST,
        READS,
    ),
)

EXERCISES = (word_of, steps_aside, key_set_arithmetic, small_row, fill_the_row)
