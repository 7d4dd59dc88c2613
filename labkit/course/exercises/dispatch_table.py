"""Dispatch tables: key sets as words, the ten rules of a row, and cells that calls read stale."""

import warnings
from typing import Any
from unittest import mock

import torch

from labkit.core.dispatch_key import FUNCTIONALITIES, RUNTIME_KEYS, SLOT_OF, DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet, keyset, slot_of_bits
from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Wrong
from labkit.dispatch import torch_tables
from labkit.dispatch.dispatcher import Dispatcher
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


def _an_expression(rng: Rng, size: int) -> tuple[int, list[Step]]:
    keys = [key for key in RUNTIME_KEYS[1:] if key not in layout().absent]
    lone = [key for key in FUNCTIONALITIES if key.is_per_backend]  # they bring no backend bit

    def word() -> int:
        chosen = [rng.choice(lone if rng.chance(0.1) else keys) for _ in range(rng.randint(0, 4))]
        return DispatchKeySet(*chosen).raw

    start = word()
    steps: list[Step] = []
    for _ in range(1 + 2 * size * size):
        kind = rng.choice(("add", "remove", "remove", "union", "difference"))
        if kind in ("add", "remove"):
            key = rng.choice(lone if rng.chance(0.1) else keys)
            steps.append((kind, _pair(key)))
        else:
            steps.append((kind, word()))
    return start, steps


def _drive_words(answer: Any, start: int, steps: list[Step]) -> list[dict[str, Any]]:
    add, remove, union, difference, slot, members = answer
    by_name = {"add": add, "remove": remove, "union": union, "difference": difference}
    word, seen = start, []
    for kind, operand in [("start", None), *steps]:
        if kind != "start":
            word = by_name[kind](word, operand)
        seen.append({"after": kind, "word": word, "slot": slot(word)})
    return [*seen, {"after": "everything", "members": members(word)}]


def _real_words(start: int, steps: list[Step]) -> list[dict[str, Any]]:
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
        mine = from_torch(real)
        seen.append({"after": kind, "word": mine.raw, "slot": slot_of_bits(mine.raw)})
    inside = _C._dispatch_keyset_to_string(real).partition("(")[2].rstrip(")")
    members = [_pair(DispatchKey[name]) for name in inside.split(", ")] if inside else []
    return [*seen, {"after": "everything", "members": members}]


def _fewer_steps(start: int, steps: list[Step]) -> Any:
    for gone in range(len(steps)):
        yield start, steps[:gone] + steps[gone + 1 :]
    if start:
        yield start & (start - 1), steps


def _show_expression(start: int, steps: list[Step]) -> str:
    lines = [f"start {start:#x}"]
    lines += [
        f"{kind} {operand if isinstance(operand, tuple) else hex(operand)}"
        for kind, operand in steps
    ]
    return ", then ".join(lines)


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
        return got.get("word") == right.get("word") and part in right

    return when


key_set_arithmetic = Exercise(
    id="dispatch_table.key_set_arithmetic",
    statement=(
        "Write six functions on words. A key is (functionality number, backend bit or None). "
        "add(word, key) and remove(word, key), union(a, b) and difference(a, b) return words; "
        "slot(word) returns the index of the winning slot, 0 to 136; members(word) lists the keys "
        "in it, weakest first, a functionality that is kept per backend once for every backend "
        "bit. Removing takes functionality bits only. Example: slot of the word of "
        "{CPU, AutogradCPU}, 1 | 1 << 16 | 1 << 36, is 96."
    ),
    rules=("integers only: no torch, no labkit",),
    case=_an_expression,
    expected=_real_words,
    drive=_drive_words,
    smaller=_fewer_steps,
    show=_show_expression,
    cases=160,
    minutes=15,
    difficulty=3,
    banned=("torch.*", "labkit.*", "torch._C.DispatchKeySet"),
    hints=(
        Hint(
            "The words differ after a removal: {input}. Which bits does a removal own? The "
            "backend bits are shared by all functionalities, so it takes none of them.",
            when=_wrong_after("remove"),
        ),
        Hint(
            "The words differ after a difference. Mask what you take away with the functionality "
            "bits, 16 and up.",
            when=_wrong_after("difference"),
        ),
        Hint(
            "The word is right and the slot is not. Undefined has slot 0 and no bit, so "
            "functionality f sits at bit 15 + f; and a word without backend bits lands on the "
            "first backend's slot.",
            when=_wrong_in("slot"),
        ),
        Hint(
            "The word is right and the members are not: six functionalities appear once for every "
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
    kernels = {DispatchKey[key]: _kernel(debug, skips) for key, debug, skips in registrations}
    table = compute_table(
        kernels, {DispatchKey[slot]: _kernel(*fallback) for slot, fallback in fallbacks.items()}
    )
    texts = {str(slot): _text_of_cell(cell) for slot, cell in zip(RUNTIME_KEYS, table, strict=True)}
    truth = {slot: text for slot, text in texts.items() if text}
    return Case((registrations, fallbacks), truth=truth)


def _kernel(debug: str, skips: bool) -> Kernel:
    return Kernel(None, debug, "fallthrough" if skips else "unknown")


def _an_operator(rng: Rng, size: int) -> Case:
    if size and rng.chance(0.375):
        return _shipped(rng.choice(torch_tables.operator_names()))
    return _random_program(rng, size)


def _first_wrong_slot(evidence: Any) -> str:
    got = evidence.value if isinstance(evidence.value, dict) else {}
    slots = [str(slot) for slot in RUNTIME_KEYS]
    return next((slot for slot in slots if got.get(slot) != evidence.right.get(slot)), "")


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
    statement=(
        "Write fill_the_row(registrations, fallbacks). registrations is a list of (key, kernel, "
        "is_fallthrough), the oldest first; a key may come twice, then the newest is active. "
        "fallbacks is {slot: (kernel, is_fallthrough)}. Return {slot: text} for every slot that "
        "is not empty, the text as PyTorch prints it: 'kernel [reason]', with 'fallthrough ' in "
        "front where it is one. Reasons: kernel, default backend kernel, nested kernel, math "
        "kernel, autograd kernel, batched kernel, backend fallback; an ambiguous AutogradOther is "
        "'ambiguous_autogradother [ambiguous autogradother]'."
    ),
    rules=("work the rules out yourself: nothing of labkit.dispatch, no dump of torch",),
    case=_an_operator,
    judge=_judge_row,
    show=_show_program,
    cases=360,
    minutes=25,
    difficulty=4,
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
            "AutogradOther watches eight functionalities on all backends. If one of them has a "
            "kernel and there is a composite implicit one, nobody knows which to run.",
            when=_at("AutogradOther"),
        ),
        Hint(
            "Is the cell a fallthrough? It is printed as one, in front of the kernel's name.",
            when=lambda evidence: "fallthrough" in evidence.expected,
        ),
        "Follow the rules in order and stop at the first hit. The order of registration decides "
        "only between kernels of one key.",
        "Rule 4 is a question, not a cell: does the backend list of this autograd slot contain a "
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


# --- stale_cells

Statement = tuple[Any, ...]
Label = int | str | None

READABLE = (
    K.Dense, K.Quantized, K.Sparse, K.SparseCsr, K.NestedTensor, K.AutogradFunctionality,
    K.AutogradOther, K.AutogradNestedTensor, K.Undefined,
)  # fmt: skip
"""Functionalities whose slots a call may enter with a bare tensor: elsewhere PyTorch's own
fallbacks would act on what the key promises."""


def _a_history(rng: Rng, size: int) -> tuple[list[Statement], tuple[str, ...]]:
    keys = [
        *(key for key in K if key.is_alias and key is not K.FuncTorchBatchedDecomposition),
        K.CompositeExplicitAutograd, K.CompositeImplicitAutograd, K.Autograd,
        K.CPU, K.Meta, K.HIP, K.MTIA, K.QuantizedCPU, K.SparseCPU, K.NestedTensorCPU,
        K.AutogradCPU, K.AutogradOther,
    ]  # fmt: skip
    program: list[Statement] = []
    alive: list[int] = []
    for number in range(2 + size):
        if alive and rng.chance(0.3):
            gone = rng.choice(alive)
            alive.remove(gone)
            program.append(("remove", gone))
        else:
            program.append(("impl", number, str(rng.choice(keys))))
            alive.append(number)
    return program, tuple(sorted(map(str, torch_tables.global_fallbacks())))


def _label(kernel: Kernel | None) -> Label:
    if kernel is None:
        return None
    return int(kernel.debug) if kernel.debug.isdigit() else "fallback"


def _stale_by_labkit(
    program: list[Statement], fallbacks: tuple[str, ...]
) -> dict[str, tuple[Label, Label]]:
    """Slot -> (what a call runs, what the registrations mean), where they differ."""
    dispatcher = Dispatcher(bare=True)
    dispatcher.fallbacks.update({DispatchKey[slot]: Kernel(None, "fallback") for slot in fallbacks})
    op = dispatcher._operator("exercise::stale")
    registered: dict[int, tuple[DispatchKey, Kernel]] = {}
    for kind, number, *key in program:
        if kind == "impl":
            registered[number] = DispatchKey[key[0]], Kernel(None, str(number))
            op.register(*registered[number])
        else:
            op.deregister(*registered.pop(number))
    found = {}
    for slot, cell in zip(RUNTIME_KEYS, op.canonical(), strict=True):
        stored, meant = _label(op.stored[SLOT_OF[slot]].kernel), _label(cell.kernel)
        if stored != meant:
            found[str(slot)] = (stored, meant)
    return found


class RealOperator:
    """An operator of the installed PyTorch with a program's registrations; it notes what ran."""

    made = 0

    def __init__(self, program: list[Statement]) -> None:
        RealOperator.made += 1
        name = f"stale{RealOperator.made}"
        self.ran: list[int] = []
        self._libraries: dict[Any, Any] = {"definition": self._library("FRAGMENT", 0)}
        self._libraries["definition"].define(f"{name}(Tensor x) -> Tensor", "")
        self.handle = _C._dispatch_find_schema_or_throw(f"labkit_exercise::{name}", "")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a newer kernel at a key is what a program may do
            self._run(name, program)

    def _run(self, name: str, program: list[Statement]) -> None:
        for kind, number, *key in program:
            if kind == "impl":
                library = self._libraries[number] = self._library("IMPL", number)
                library.impl(name, torch_key(DispatchKey[key[0]]), self._kernel(number), False)
            else:
                self._libraries.pop(number).reset()

    def _library(self, kind: str, number: int) -> Any:
        return _C._dispatch_library(kind, "labkit_exercise", "", "exercise", number)

    def _kernel(self, number: int) -> Any:
        def kernel(x: Any) -> Any:
            self.ran.append(number)
            return x

        return kernel

    def close(self) -> None:
        """PyTorch has forgotten the operator."""
        for library in reversed(self._libraries.values()):
            library.reset()


class _Crashes:
    """Stands where PyTorch's own entry would end the process."""

    def __init__(self, *_arguments: Any) -> None:
        raise RuntimeError(
            "_dispatch_get_computed_kernel_for_dispatch_key takes the canonical kernel and checks "
            "the stored cell: on a stale cell, calling what it returns ends the process"
        )


def _drive_stale(answer: Any, program: list[Statement], fallbacks: tuple[str, ...]) -> Any:
    predict, call_slot = answer
    predicted = predict(program, fallbacks)
    ran: dict[str, Any] = {}
    if not isinstance(predicted, dict):
        return {"predicted": predicted, "ran": ran}
    slots = [slot for slot in predicted if slot in K.__members__]
    slots = [
        slot
        for slot in slots
        if DispatchKey[slot] in SLOT_OF and DispatchKey[slot].functionality in READABLE
    ]
    # CPU is asked of every program, so that a call_slot that never runs anything is seen
    stored = {**{slot: predicted[slot] for slot in slots}, "CPU": predicted.get("CPU")}
    asked = [slot for slot in stored if slot == "CPU" or type(stored[slot][0]) is int]
    real = RealOperator(program)
    name = "_dispatch_get_computed_kernel_for_dispatch_key"
    try:
        with mock.patch.object(_C, name, _Crashes):
            for slot in asked[:4]:
                real.ran.clear()
                try:
                    call_slot(real.handle, torch_key(DispatchKey[slot]), torch.ones(1))
                except NotImplementedError:
                    ran[slot] = "missing"
                else:
                    ran[slot] = list(real.ran)
    finally:
        real.close()
    return {"predicted": predicted, "ran": ran}


def _real_stored(program: list[Statement], slot: str) -> Any:
    """What a call really runs in a slot."""
    real = RealOperator(program)
    try:
        real.handle.redispatch_boxed(_C.DispatchKeySet(torch_key(DispatchKey[slot])), torch.ones(1))
    except NotImplementedError:
        return "missing"
    finally:
        real.close()
    return list(real.ran)


def _judge_stale(case: Case, got: Any) -> Any:

    right = _stale_by_labkit(*case.inputs)
    if isinstance(got, Raised):
        return Wrong("both functions return", right)
    predicted, ran = got["predicted"], got["ran"]
    if not isinstance(predicted, dict):
        return Wrong("stale_cells returns a dict", right)
    for slot in [str(slot) for slot in RUNTIME_KEYS]:
        mine = predicted.get(slot)
        mine = tuple(mine) if isinstance(mine, list | tuple) else mine
        if mine != right.get(slot) or [type(x) for x in mine or ()] != [
            type(x) for x in right.get(slot) or ()
        ]:
            if slot not in right:
                return Wrong(f"{slot} is not stale", right)
            return Wrong(f"{slot} is stale: (stored, canonical) as expected", right[slot])
    if predicted.keys() != right.keys():
        return Wrong("only slots are named", right)
    for slot, labels in ran.items():
        real = _real_stored(case.inputs[0], slot)
        if labels != real:
            return Wrong(f"the call through {slot} enters the stored cell and runs", real)
    return None


def _show_history(program: list[Statement], fallbacks: tuple[str, ...]) -> str:
    lines = [
        f"{rest[0]}: kernel at {rest[1]}" if kind == "impl" else f"remove {rest[0]}"
        for kind, *rest in program
    ]
    return f"{'; '.join(lines)} ({len(fallbacks)} global fallbacks)"


stale_cells = Exercise(
    id="dispatch_table.stale_cells",
    statement=(
        "Write two functions. stale_cells(program, fallbacks): statements are ('impl', number, "
        "key) and ('remove', number); fallbacks names the slots that have a global fallback. "
        "Return {slot: (stored, canonical)} for every slot where the two differ, each the number "
        "of a kernel, 'fallback' or None. call_slot(handle, slot, x): call the real operator of "
        "this handle so that it enters the stored cell of this torch._C.DispatchKey. Example: "
        "after ('impl', 0, 'CompositeImplicitAutograd'), ('impl', 1, 'CompositeExplicitAutograd') "
        "AutogradCPU is stale: (0, 'fallback')."
    ),
    rules=("labkit.dispatch.compute_cell is allowed; labkit's operators and libraries are not",),
    case=_a_history,
    judge=_judge_stale,
    drive=_drive_stale,
    show=_show_history,
    cases=240,
    minutes=25,
    difficulty=5,
    banned=(
        "labkit.dispatch.operator.*",
        "labkit.dispatch.dispatcher.*",
        "labkit.dispatch.library.*",
        "labkit.dispatch.explain_table.*",
        "labkit.conformance.*",
    ),
    hints=(
        Hint(
            "Your call never reached the stored cell, or asked for a computed kernel: on a stale "
            "cell that entry ends the process. A redispatch takes a key set and reads the stored "
            "table.",
            when=lambda evidence: evidence.kind == "raised" or "the call" in evidence.property,
        ),
        Hint(
            "In {input} a kernel was removed. A removal refreshes the same slots as a "
            "registration did, and no others.",
            when=lambda evidence: (
                bool(evidence.inputs) and any(s[0] == "remove" for s in evidence.inputs[0])
            ),
        ),
        "Keep 137 stored cells. After every statement recompute only those it refreshes; at the "
        "end compare with all of them recomputed.",
        "Refreshed are: the slots of the changed key, Undefined for the three composite aliases "
        "that fill it, and for a backend's key one autograd slot: that of its backend bit; "
        "AutogradOther for HIP, for VE and for a key without a backend bit.",
    ),
    must_fail=(
        "none are stale",
        "all alias cells are stale",
        "reads the dump",
        "calls the crashing boxed entry on a stale cell",
        CONSTANT,
        FIRST,
        "catches every exception and returns a default",
    ),
)

EXERCISES = (key_set_arithmetic, fill_the_row, stale_cells)
