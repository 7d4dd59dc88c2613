"""Dispatch tables: key sets as words, and the steps that fill an operator's row."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.core.dispatch_key import FUNCTIONALITIES, RUNTIME_KEYS, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet, keyset, slot_of_bits
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, Wrong
from labkit.course.exercises._row_steps import drawn_row, small_row, steps_aside, word_of
from labkit.dispatch import torch_tables
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.table import AMBIGUOUS, Cell, compute_table
from labkit.dispatch.torch_keys import from_torch, layout, to_torch, torch_key

NOTEBOOK = "3_internals/2_dispatch_table"
_C: Any = torch._C
K = DispatchKey

FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"


# --- key_set_arithmetic

Step = tuple[str, Any]


def _pair(key: DispatchKey) -> tuple[int, int | None]:
    """A key as (functionality number, backend bit)."""
    return int(key.functionality), key.backend_bit if key.backend_bit >= 0 else None


WORD_STEPS = ("add", "union", "remove", "difference")
READS = ("slot", "members")
Expression = tuple[int, list[Step], tuple[str, ...]]


def _expression_of(*functions: str) -> Callable[[Rng, int], Expression]:
    """Expressions that call only these of the six functions."""
    kinds = [kind for kind in (*WORD_STEPS, "remove") if kind in functions]
    reads = tuple(name for name in READS if name in functions)

    def case(rng: Rng, size: int) -> Expression:
        keys = [key for key in RUNTIME_KEYS[1:] if key not in layout().absent]
        lone = [key for key in FUNCTIONALITIES if key.is_per_backend]  # they bring no backend bit

        def key() -> DispatchKey:
            return rng.choice(lone if rng.chance(0.1) else keys)

        def word() -> int:
            return DispatchKeySet(*[key() for _ in range(rng.randint(0, 4))]).raw

        start = word()
        chosen = [rng.choice(kinds) for _ in range(1 + 2 * size * size)] if kinds else []
        steps = [(kind, _pair(key()) if kind in ("add", "remove") else word()) for kind in chosen]
        return start, steps, reads

    return case


def _drive_words(answer: Any, start: int, steps: list[Step], reads: Any) -> list[dict[str, Any]]:
    by_name = dict(zip(("add", "remove", "union", "difference", *READS), answer, strict=True))
    word, seen = start, []
    for kind, operand in [("start", None), *steps]:
        if kind != "start":
            word = by_name[kind](word, operand)
        seen.append({"after": kind, "word": word})
        if "slot" in reads:
            seen[-1]["slot"] = by_name["slot"](word)
    if "members" in reads:
        seen.append({"after": "everything", "word": word, "members": by_name["members"](word)})
    return seen


def _real_words(start: int, steps: list[Step], reads: Any) -> list[dict[str, Any]]:
    """The same with PyTorch's own class."""
    by_pair = {_pair(key): key for key in (*RUNTIME_KEYS[1:], *FUNCTIONALITIES)}
    real, seen = to_torch(keyset(start)), []
    for kind, operand in [("start", None), *steps]:
        if kind in ("add", "remove"):
            real = getattr(real, kind)(torch_key(by_pair[operand]))
        elif kind == "union":
            real = real | to_torch(keyset(operand))
        elif kind == "difference":
            real = real - to_torch(keyset(operand))
        word = from_torch(real).raw
        seen.append({"after": kind, "word": word})
        if "slot" in reads:
            seen[-1]["slot"] = slot_of_bits(word)
    if "members" in reads:
        inside = _C._dispatch_keyset_to_string(real).partition("(")[2].rstrip(")")
        members = [_pair(DispatchKey[name]) for name in inside.split(", ")] if inside else []
        seen.append({"after": "everything", "word": word, "members": members})
    return seen


def _fewer_steps(start: int, steps: list[Step], reads: Any) -> Any:
    for gone in range(len(steps)):
        yield start, steps[:gone] + steps[gone + 1 :], reads
    if start:
        yield start & (start - 1), steps, reads


def _show_expression(start: int, steps: list[Step], reads: Any) -> str:
    lines = [f"start {start:#x}"]
    lines += [
        f"{kind} {operand if isinstance(operand, tuple) else hex(operand)}"
        for kind, operand in steps
    ]
    return ", then ".join([*lines, *reads])


def _first_difference(evidence: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    pairs = zip(evidence.value, evidence.right, strict=True)
    return next((got, right) for got, right in pairs if got != right)


def _wrong_after(kind: str) -> Any:
    def when(evidence: Any) -> bool:
        got, right = _first_difference(evidence)
        return bool(right["after"] == kind and got["word"] != right["word"])

    return when


def _wrong_in(part: str) -> Any:
    def when(evidence: Any) -> bool:
        got, right = _first_difference(evidence)
        return got["word"] == right["word"] and got.get(part) != right.get(part)

    return when


key_set_arithmetic = Exercise(
    id="dispatch_table.key_set_arithmetic",
    rules=("integers only: no torch, no labkit",),
    case=_expression_of(*WORD_STEPS, *READS),
    expected=_real_words,
    drive=_drive_words,
    smaller=_fewer_steps,
    show=_show_expression,
    cases=100,
    stages=(
        *(Stage(name, case=_expression_of(name)) for name in (*WORD_STEPS, *READS)),
        Stage("together"),
    ),
    minutes=15,
    banned=("torch.*", "labkit.*", "torch._C.DispatchKeySet"),
    hints=(
        Hint(
            "The words differ after a removal: {input}. Which bits does a removal own? The "
            "backend bits are shared by all features, so it takes none of them.",
            when=_wrong_after("remove"),
        ),
        Hint(
            "The words differ after a difference. Mask what you take away with the feature "
            "bits, 16 and up.",
            when=_wrong_after("difference"),
        ),
        Hint(
            "The word is right and the slot is not. Undefined has slot 0 and no bit, so "
            "feature f sits at bit 15 + f; and a word without backend bits lands on the "
            "first backend's slot.",
            when=_wrong_in("slot"),
        ),
        Hint(
            "The word is right and the members are not: six features appear once for every "
            "backend bit of the word, and not at all when there is none.",
            when=_wrong_in("members"),
        ),
        "Do one word by hand: {CPU, AutogradCPU}. Three bits, not four.",
    ),
    must_fail=(
        "removal clears backend bits",
        "iteration skips per-backend expansion",
        "off by one from the bit without Undefined",
        "no backend bit means Undefined slot",
        "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)",
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
        "reads the expected value out of the checker (module globals, frames or closure)",
    ),
)

EXERCISES = (word_of, steps_aside, key_set_arithmetic, small_row, fill_the_row)
