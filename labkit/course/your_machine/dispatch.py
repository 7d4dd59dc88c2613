"""Seats of a call's way to its kernel: key sets, and the rows of the dispatch tables."""

from typing import Any

from labkit.core.dispatch_key import RUNTIME_KEYS, DispatchKey
from labkit.core.dispatch_key_set import keyset
from labkit.course.your_machine.seat import Ask, Differs, Place, Seat, place
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.dispatcher import dispatcher
from labkit.dispatch.table import AMBIGUOUS, MISSING, Cell

K = DispatchKey
RULE_OF = {
    K.CompositeExplicitAutogradNonFunctional: 2,
    K.CompositeExplicitAutograd: 3,
    K.CompositeImplicitAutogradNestedTensor: 5,
    K.CompositeImplicitAutograd: 6,
    K.Autograd: 7,
    K.FuncTorchBatchedDecomposition: 8,
}
"""Of a cell that an alias fills; a key of its own fills by rule 1, a fallback by rule 9."""


def _words(values: list[Any]) -> tuple[list[Any]]:
    """Every tensor is its word; what is none stays out."""

    def word(value: Any) -> int | None:
        keys = key_set_of(value)
        return None if keys is None else keys.raw

    return (
        [
            [word(each) for each in value] if isinstance(value, list | tuple) else word(value)
            for value in values
        ],
    )


class _Rows:
    """The rows a part has filled: a cell is asked for, and the exercise fills whole rows."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], tuple[Any, Any, dict[str, str]]] = {}

    def mine(self, ask: Ask, slot: DispatchKey, kernels: Any, fallbacks: Any) -> Cell:
        """The part's cell."""
        asked = id(kernels), id(fallbacks)
        if asked not in self.known:
            if len(self.known) > 2000:
                self.known.clear()
            row = ask(
                [
                    (str(key), f"kernel at {key}", one.is_fallthrough)
                    for key, one in kernels.items()
                ],
                {
                    str(key): (f"fallback of {key}", one.is_fallthrough)
                    for key, one in fallbacks.items()
                },
            )
            self.known[asked] = kernels, fallbacks, dict(row)
        text = self.known[asked][2].get(str(slot), "")
        return _cell(slot, text, kernels, fallbacks)


def _cell(slot: DispatchKey, text: str, kernels: Any, fallbacks: Any) -> Cell:
    """The cell that a text of the exercise tells of.

    Raises   Differs   it tells of no kernel that was registered
    """
    if not text:
        return MISSING
    name, _, reason = text.removesuffix("]").partition(" [")
    if reason == AMBIGUOUS:
        return Cell(None, AMBIGUOUS, 6, K.CompositeImplicitAutograd)
    skips, name = name.startswith("fallthrough "), name.removeprefix("fallthrough ")
    if name == f"fallback of {slot}" and slot in fallbacks:
        kernel, rule, source = fallbacks[slot], 9, None
    else:
        source = next((key for key in kernels if name == f"kernel at {key}"), None)
        if source is None:
            raise Differs(text, "one of the kernels of this operator")
        kernel, rule = kernels[source], 1 if source is slot else RULE_OF.get(source, 0)
    if kernel.is_fallthrough is not skips:
        raise Differs(text, "a fallthrough is said to be one")
    return Cell(kernel, reason, rule, source)


def _ask_row(ask: Ask, slot: DispatchKey, kernels: Any, fallbacks: Any) -> Cell:
    rows = vars(ask).setdefault("rows", _Rows())
    return rows.mine(ask, slot, kernels, fallbacks)  # type: ignore[no-any-return]


def _same_cell(mine: Cell, right: Cell, *args: Any) -> bool:
    return mine.kernel is right.kernel and mine.reason == right.reason


def refill_tables() -> None:
    """Every operator fills its dispatch table anew when it is next called."""
    for op in dispatcher().operators.values():
        op._update_dispatch_table(RUNTIME_KEYS)


SEATS = (
    Seat(
        "dispatch_call.joined",
        "the keys of a call",
        "dispatch",
        "The key sets of all tensors among the arguments, joined in one word.",
        "aten/src/ATen/core/dispatch/DispatchKeyExtractor.h  getDispatchKeySetBoxed",
        (place("labkit.dispatch.arguments.joined", _words),),
    ),
    Seat(
        "dispatch_table.key_set_arithmetic",
        "the slot of the keys",
        "dispatch",
        "A word of keys becomes the number of a slot; keys are taken away, and backends stay.",
        "c10/core/DispatchKeySet.h  getDispatchTableIndexForDispatchKeySet",
        (
            place("labkit.core.dispatch_key_set.slot_of_bits", lambda bits: (bits,), which=1),
            place(
                "labkit.core.dispatch_key_set.DispatchKeySet.__sub__",
                lambda self, other: (self.raw, other.raw),
                lambda value, *args: keyset(value),
                which=0,
            ),
        ),
    ),
    Seat(
        "dispatch_table.fill_the_row",
        "the dispatch table",
        "dispatch",
        "From what is registered comes, for each slot, the kernel that a call there runs.",
        "aten/src/ATen/core/dispatch/OperatorEntry.cpp  computeDispatchTableEntryWithDebug",
        (Place("labkit.dispatch.table.compute_cell", _ask_row, same=_same_cell),),
    ),
)
