"""Operators whose rows are stored by a rule of one's own, and programs of registrations for them.

A rule is what `slots_updated` in labkit.dispatch.operator says: a registration key -> the slots
that are worked out again and stored when a kernel there comes or goes.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from labkit.core.alias_keys import AUTOGRAD_SET, BACKENDS_OF_AUTOGRAD, SLOTS_OF_ALIAS
from labkit.core.dispatch_key import RUNTIME_KEYS, SLOT_OF, DispatchKey
from labkit.course.exercise import handed_out
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.dispatcher import Rule as KeyRule
from labkit.dispatch.kernel import Kernel
from labkit.dispatch.operator import slots_updated
from labkit.dispatch.table import Cell

Statement = tuple[Any, ...]
Rule = Callable[[str], Collection[str]]
Kernels = dict[str, Kernel | None]
"""Slot -> its kernel; None is an empty cell."""

EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
SLOTS = tuple(str(slot) for slot in RUNTIME_KEYS)
FILLS = {
    str(alias): frozenset(str(slot) for slot in slots) for alias, slots in SLOTS_OF_ALIAS.items()
}
"""Alias -> the slots in its set; three of them fill Undefined, too."""
LOOKS_AT = {
    str(slot): frozenset(str(key) for key in backends)
    for slot, backends in BACKENDS_OF_AUTOGRAD.items()
}
"""Autograd slot -> the keys for which a formula there steps aside."""
FALLBACKS = dict.fromkeys(AUTOGRAD_SET, Kernel(None, "fallback"))
"""What stands in the autograd slots where no kernel of the operator does."""
KEYS = (
    "CPU", "SparseCPU", "NestedTensorCPU", "AutogradCPU", "Autograd",
    "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutogradNestedTensor",
    EXPLICIT, IMPLICIT, IMPLICIT,
)  # fmt: skip
"""Keys whose kernels meet one another in some cell."""
OTHERS = [*SLOTS[1:], *FILLS]
"""Every key that a kernel can stand at."""
KINDS = ("impl", "override", "remove")


@handed_out
def rule_of_213(key: str) -> set[str]:
    """The slots that PyTorch 2.13 stores again."""
    return {str(slot) for slot in slots_updated(DispatchKey[key])}


@handed_out
def by_names(rule: Rule) -> KeyRule:
    """The rule as a `Dispatcher` asks it: keys in place of names."""
    return lambda key: tuple(DispatchKey[name] for name in rule(str(key)))


def smallest_rule(key: str) -> set[str]:
    """The slots whose cell a kernel at `key` can change, and no others."""
    slots = set(FILLS.get(key, {key}))
    if key.startswith("Composite") and not key.endswith("NestedTensor"):
        slots = slots | {"Undefined"}
    if key == EXPLICIT:
        slots = slots | FILLS[IMPLICIT]
    return slots | {slot for slot, backends in LOOKS_AT.items() if key in backends}


class Row:
    """An operator of labkit that runs a program, and stores the cells that a rule names.

    rule   key -> slots
    heeds  what it stores anything for: first kernels at a key, overrides, removals
    heals  True stores the whole row at the statement that comes after a stale cell
    """

    def __init__(self, rule: Rule, heeds: Sequence[str] = KINDS, heals: bool = False) -> None:
        world = Dispatcher(bare=True, slots_updated=lambda key: self._slots)
        world.fallbacks.update(FALLBACKS)
        self.op = world._operator("capstone::op")
        self._slots: tuple[DispatchKey, ...] = ()
        self._worked_out: dict[str, Kernels] = {}
        """"stored" and "meant", where they were asked for since the last statement."""
        self.touched = 0
        self._rule, self._heeds, self._heals = rule, heeds, heals
        self._alive: dict[int, tuple[DispatchKey, Kernel]] = {}

    def run(self, statement: Statement) -> None:
        """The kernel is registered, or gone; removing one that is not there does nothing."""
        self._worked_out.clear()
        kind, number, *key = statement
        if kind == "remove" and number not in self._alive:
            return
        if kind == "remove":
            at = self._alive.pop(number)
            self._store_next(at[0], "remove")
            self.op.deregister(*at)
            return
        at = self._alive[number] = DispatchKey[key[0]], Kernel(None, key[0])
        self._store_next(at[0], "override" if at[0] in self.op.kernels else "impl")
        self.op.register(*at)

    def _store_next(self, key: DispatchKey, kind: str) -> None:
        """What the change that comes now stores again."""
        names = self._rule(str(key)) if kind in self._heeds else ()
        if self._heals and self.op.stale_slots():
            names = SLOTS
        self._slots = tuple(DispatchKey[name] for name in names)
        self.touched += len(self._slots)

    def stored(self) -> Kernels:
        """Slot -> the kernel that a call runs."""
        return self._once("stored", lambda: self.op.dispatch_table)

    def meant(self) -> Kernels:
        """Slot -> the kernel that all registrations together say."""
        return self._once("meant", self.op.computed_table)

    def _once(self, name: str, cells: Callable[[], Sequence[Cell]]) -> Kernels:
        """Worked out once after each statement: a fuzzer may ask for it slot by slot."""
        if name not in self._worked_out:
            kernels = [cell.kernel for cell in cells()]
            self._worked_out[name] = dict(zip(SLOTS, kernels, strict=True))
        return self._worked_out[name].copy()

    def stale(self) -> dict[str, tuple[str, str]]:
        """Slot -> (what a call runs, what is meant), where they differ."""
        now, kept = self.op.computed_table(), self.op.dispatch_table
        return {
            str(slot): (_name(kept[SLOT_OF[slot]].kernel), _name(now[SLOT_OF[slot]].kernel))
            for slot in self.op.stale_slots()
        }


def _name(kernel: Kernel | None) -> str:
    return "nothing" if kernel is None else kernel.debug


@handed_out
def after(program: Sequence[Statement], rule: Rule = rule_of_213) -> Row:
    """The row after a program."""
    row = Row(rule)
    for statement in program:
        row.run(statement)
    return row


def moved(before: Sequence[str], key: str) -> set[str]:
    """The slots that mean another kernel when one at `key` joins those at the keys `before`."""
    row = after([("impl", number, at) for number, at in enumerate(before)])
    then = row.meant()
    row.run(("impl", len(before), key))
    now = row.meant()
    return {slot for slot in SLOTS if then[slot] is not now[slot]}


def random_program(rng: Any, steps: int, keys: Sequence[str] = KEYS) -> list[Statement]:
    """Kernels come and go; `rng` is a random.Random."""
    program: list[Statement] = []
    alive: list[int] = []
    for number in range(steps):
        if alive and rng.random() < 0.3:
            program.append(("remove", alive.pop(rng.randrange(len(alive)))))
        else:
            program.append(("impl", number, rng.choice(keys)))
            alive.append(number)
    return program


def _reported_alone(key: str) -> set[str]:
    """The rule of 2.13, with the cells of the report added."""
    return rule_of_213(key) | (FILLS["Autograd"] if key == EXPLICIT else frozenset())


_SMALLEST = {key: smallest_rule(key) for key in OTHERS}


def _smallest(key: str) -> set[str]:
    return _SMALLEST[key]


def _without_undefined(key: str) -> set[str]:
    return _SMALLEST[key] - {"Undefined"}


def _own_slots(key: str) -> set[str]:
    return set(FILLS.get(key, {key}))


SOUND: dict[str, Callable[[], Row]] = {
    "the smallest rule": lambda: Row(_smallest),
}
BROKEN: dict[str, Callable[[], Row]] = {
    "the rule of 2.13": lambda: Row(rule_of_213),
    "the changed key alone": lambda: Row(_own_slots),
}
HALF: dict[str, Callable[[], Row]] = {
    "a removal stores nothing": lambda: Row(_smallest, heeds=("impl", "override")),
    "a second kernel at a key stores nothing": lambda: Row(_smallest, heeds=("impl", "remove")),
    "Undefined is forgotten": lambda: Row(_without_undefined),
    "the report alone is repaired": lambda: Row(_reported_alone),
    "a stale cell is stored one statement later": lambda: Row(rule_of_213, heals=True),
}
SIDES = {**SOUND, **BROKEN, **HALF}


@handed_out
def forgetting(key: str, slot: str) -> Row:
    """An operator that stores by the smallest rule, but never this slot for this key."""
    return Row(lambda at: _SMALLEST[at] - ({slot} if at == key else set()))


class AskedRow:
    """What a fuzzer may do with an operator: run statements, which `ran` lists, and compare.

    Functions, not methods of the row: a method leads to the operator, which knows what is stale.
    """

    def __init__(self, row: Row, ran: list[Statement]) -> None:
        def run(statement: Statement) -> None:
            row.run(statement)
            ran.append(tuple(statement))

        def stored() -> Kernels:
            return row.stored()

        def meant() -> Kernels:
            return row.meant()

        self.run, self.stored, self.meant = run, stored, meant
