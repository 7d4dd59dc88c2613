"""A dispatcher call: whose keys are in it, and its hops without running it."""

from typing import Any

from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet, keyset
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import BANNED, CONSTANT, FIRST
from labkit.course.exercises._orders_drawn import hops_drawn
from labkit.dispatch import tls
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.schema_parser import parse_schema

NOTEBOOK = "3_internals/3_dispatch_call"
K = DispatchKey


# --- predict_the_hops

SCHEMAS = (
    "(Tensor x) -> Tensor",
    "(Tensor x, Tensor y) -> Tensor",
    "(Tensor x, Tensor? y, int n) -> Tensor",
    "(Tensor[] xs, Tensor? y) -> Tensor",
    "(Tensor?[] xs, int n) -> Tensor",
)
LAYERS = (
    K.ADInplaceOrView, K.AutogradCPU, K.AutogradCUDA, K.AutogradOther, K.AutocastCPU,
    K.BackendSelect, K.Functionalize, K.FuncTorchBatched, K.Python, K.Negative, K.Conjugate,
)  # fmt: skip
BOTTOMS = (K.CPU, K.CUDA, K.Meta, K.SparseCPU, K.QuantizedCPU)

Call = tuple[list[Any], int, int]
Plan = tuple[str, dict[str, str | int]]


def _a_plan(rng: Rng, size: int) -> Plan:
    """A schema, and what stands at each slot: "on" redispatches, "end" computes, "skip"."""
    table: dict[str, str | int] = {}
    kinds = rng.choice((("on",), ("on", "skip"), ("on", "on", "skip", "set")))
    for key in LAYERS:
        kind = rng.choice(kinds)
        # a set of the kernel's own: the only way a redispatch meets what the first mask took out
        below = DispatchKeySet(*rng.sample(LAYERS, 4), rng.choice(BOTTOMS))
        own = below & DispatchKeySet.full_after(key.functionality)
        if rng.chance(0.8):
            table[str(key)] = own.raw if kind == "set" else kind
    table |= {str(key): rng.choice(("end", "end", "on")) for key in BOTTOMS if rng.chance(0.85)}
    return rng.choice(SCHEMAS), table


def _a_word(rng: Rng) -> int:
    backend = rng.choice((K.CPU, K.CPU, K.CPU, K.CUDA, K.Meta, K.SparseCPU, K.QuantizedCPU))
    extra = [key for key in LAYERS if rng.chance(0.25)]
    return DispatchKeySet(backend, *extra).raw


def _a_call(rng: Rng, schema: str) -> Call:
    made: list[Any] = []
    for argument in parse_schema(f"exercise::op{schema}").arguments:
        kind = str(argument.type)
        if kind == "Tensor" or (kind == "Tensor?" and rng.chance(0.6)):
            made.append(_a_word(rng))
        elif kind == "Tensor[]":
            made.append([_a_word(rng) for _ in range(rng.randint(0, 3))])
        elif kind == "Tensor?[]":
            made.append([_a_word(rng) if rng.chance(0.7) else None for _ in range(3)])
        else:
            made.append("3" if kind == "int" else None)
    included = tls.DEFAULT_INCLUDED | DispatchKeySet(*[k for k in LAYERS if rng.chance(0.15)])
    excluded = DispatchKeySet(*[k for k in LAYERS if rng.chance(0.2)])
    return made, included.raw, excluded.raw


class _Stand:
    """A tensor of which only the key set matters."""

    def __init__(self, word: int) -> None:
        self._key_set = keyset(word)


def _as_argument(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_argument(item) for item in value]
    return _Stand(value) if isinstance(value, int) else 3 if value == "3" else value


class _Recorded:
    """An operator of labkit whose kernels note their slot and pass the call on."""

    def __init__(self, plan: Plan) -> None:
        schema, table = plan
        dispatcher = Dispatcher(bare=True)
        dispatcher.register_def(parse_schema(f"exercise::op{schema}"), "")
        self.op = dispatcher.find("exercise::op")
        self.hops: list[str] = []
        for name, kind in table.items():
            form = "fallthrough" if kind == "skip" else "unboxed"
            function = None if kind == "skip" else self._kernel(name, kind)
            kernel = Kernel(function, name, form, with_keyset=kind != "skip")  # type: ignore[arg-type]
            self.op.register(K.parse(name), kernel)

    def _kernel(self, name: str, kind: str | int) -> Any:
        def kernel(keys: DispatchKeySet, *arguments: Any) -> Any:
            self.hops.append(name)
            if kind == "end":
                return None
            below = keys & DispatchKeySet.full_after(keys.highest_functionality())
            return self.op.redispatch(keyset(kind) if isinstance(kind, int) else below, *arguments)

        return kernel

    def call(self, call: Call) -> list[str]:
        """The slots entered, and "error" where the last redispatch found nothing to run."""
        arguments, included, excluded = call
        self.hops = []
        try:
            with tls.ForceDispatchKeyGuard(keyset(included), keyset(excluded)):
                self.op(*map(_as_argument, arguments))
        except (NotImplementedError, RuntimeError):
            return [*self.hops, "error"]
        return self.hops


def _joined(arguments: list[Any]) -> int:
    """The words of all tensors, in lists, too."""
    word = 0
    for value in arguments:
        for item in value if isinstance(value, list) else [value]:
            word |= item if isinstance(item, int) else 0
    return word


def _on_thread(word: int, included: int, excluded: int) -> int:
    """The word with what a thread includes and without what it excludes."""
    return (keyset(word) | keyset(included)).raw & ~(excluded >> 16 << 16)


def _one_call(rng: Rng, size: int) -> Case:
    """A call of an operator: the set that its thread leaves, the mask for it, and the kernels."""
    schema, table = _a_plan(rng, size)
    recorded, call = _Recorded((schema, table)), _a_call(rng, schema)
    keys = keyset(_on_thread(_joined(call[0]), *call[1:]))
    mask = recorded.op.masks[max(keys.highest_backend(), 0)]
    return Case((keys.raw, mask, table), truth=recorded.call(call))


def _has_only(table: dict[str, str | int], *kinds: str) -> bool:
    return all(kind in kinds for kind in table.values())


def _named(word: int) -> str:
    return f"{word:#x} {{{', '.join(map(str, keyset(word)))}}}"


def _show_call(word: int, mask: int, table: dict[str, str | int]) -> str:
    """The call with the names of its keys; of the mask, what it takes out."""
    left = {*keyset(word & mask)}
    gone = ", ".join(str(key) for key in keyset(word) if key not in left) or "nothing"
    kernels = (
        f"{slot!r}: {_named(kind) if isinstance(kind, int) else repr(kind)}"
        for slot, kind in table.items()
    )
    return f"{_named(word)}, {mask:#x} (takes out {gone}), {{{', '.join(kernels)}}}"


predict_the_hops = Exercise(
    id="dispatch_call.predict_the_hops",
    rules=("labkit.core is allowed, labkit.dispatch is not; nothing is run",),
    case=_one_call,
    show=_show_call,
    picture=hops_drawn,
    cases=400,
    stages=(
        Stage("redispatch", only=lambda word, mask, table: _has_only(table, "on", "end")),
        Stage("fallthrough", only=lambda word, mask, table: _has_only(table, "on", "end", "skip")),
        Stage("own sets"),
    ),
    minutes=15,
    banned=("torch.*", "labkit.dispatch.*", "labkit.conformance.*"),
    hints=(
        Hint(
            "This call finds no kernel in the end: 'error' is missing, in place of the slot.",
            when=lambda evidence: [*evidence.value, "error"] == evidence.right,
        ),
        Hint(
            "The mask acts once, before the first hop. A set that a kernel makes itself was never "
            "masked: its highest key may be a fallthrough, and then nothing can run.",
            stage="own sets",
        ),
        Hint(
            "A key that falls through is no hop. Take word & mask first, then look for the winner.",
            stage="fallthrough",
        ),
        "After 'on' comes what is left below the kernel's own feature: "
        "full_after(highest_functionality()).",
        "A loop: note the slot_key(), stop at 'end', else go on with the next set. A slot that the "
        "table does not have ends in 'error'.",
    ),
    must_fail=(
        "mask applied at every hop",
        "no mask at all",
        "stops at Autograd",
        "an empty slot is passed over",
        FIRST,
        CONSTANT,
        BANNED,
    ),
)


# --- joined, on_thread


def _arguments(rng: Rng, size: int) -> tuple[list[Any]]:
    return (_a_call(rng, rng.choice(SCHEMAS))[0],)


joined = Exercise(
    id="dispatch_call.joined",
    case=_arguments,
    expected=_joined,
    rung="warm-up",
    rules=("integers only: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    cases=120,
    minutes=3,
    hints=(
        Hint(
            "An argument may be a list of tensors. Its words count, too.",
            when=lambda evidence: any(isinstance(value, list) for value in evidence.inputs[0]),
        ),
        Hint(
            "None and text bring no keys: an optional tensor that is not there, and a number.",
            when=lambda evidence: evidence.kind == "raised",
        ),
        "Start with 0, and join each word with |=. isinstance(value, int) finds the words.",
    ),
    must_fail=(
        "only the first argument",
        "lists ignored",
        "adds the words",
        "takes the largest word",
    ),
)


@handed_out
def _hex(word: Any) -> Any:
    """A word as the chapter writes it; anything else as it is."""
    return hex(word) if isinstance(word, int) else word


def _a_thread(rng: Rng, size: int) -> tuple[int, int, int]:
    arguments, included, excluded = _a_call(rng, SCHEMAS[1])
    return _joined(arguments), included, excluded


def _missing(evidence: Any) -> int:
    return int(evidence.right, 16) & ~int(evidence.value, 16)


def _added_again(evidence: Any) -> bool:
    """Whether all that is too much was excluded, and included."""
    _, included, excluded = evidence.inputs
    extra = int(evidence.value, 16) & ~int(evidence.right, 16)
    return extra != 0 and extra & ~(included & excluded) == 0


on_thread = Exercise(
    id="dispatch_call.on_thread",
    case=_a_thread,
    expected=lambda *words: _hex(_on_thread(*words)),
    drive=lambda answer, *words: _hex(answer(*words)),
    rung="warm-up",
    rules=("integers only: no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    cases=120,
    minutes=3,
    show=lambda word, included, excluded: f"{word:#x}, {included:#x}, {excluded:#x}",
    hints=(
        Hint(
            "A backend is missing. Taking a key out takes its feature: clear bits 16 and up only.",
            when=lambda evidence: _missing(evidence) & 0xFFFF & evidence.inputs[2] != 0,
        ),
        Hint(
            "A key is missing that the thread includes: join those, too.",
            when=lambda evidence: (
                _missing(evidence) & ~(evidence.inputs[0] | evidence.inputs[2]) != 0
            ),
        ),
        Hint(
            "A key that the thread includes and excludes is out: take away last.",
            when=_added_again,
        ),
        "word | included, and then & ~(the features of excluded): excluded >> 16 << 16.",
    ),
    must_fail=(
        "excluded before included",
        "excluded takes backends, too",
        "forgets what the thread includes",
        "forgets what the thread excludes",
    ),
)

EXERCISES = (joined, on_thread, predict_the_hops)
