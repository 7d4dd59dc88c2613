"""A set of dispatch keys in one 62-bit word, and where in a table its winner sits.

Bits 0 to 15 say which backends are present; bit 15 + f says that functionality number f is.
A backend belongs to no functionality in particular: {CPU, AutogradCUDA} and {CUDA,
AutogradCPU} are the same word. Two rules follow that surprise everyone once: removing a key
takes its functionality bit only, and the winner is the highest functionality joined with the
highest backend, whoever brought it.

Source   c10/core/DispatchKeySet.h  DispatchKeySet
"""

from collections.abc import Iterator

from labkit.core.dispatch_key import (
    BACKENDS,
    FUNCTIONALITIES,
    RUNTIME_KEYS,
    SLOT_OF,
    DispatchKey,
    runtime_key,
)

NUM_BACKENDS = len(BACKENDS)
BACKEND_MASK = (1 << NUM_BACKENDS) - 1
FULL_MASK = (1 << (NUM_BACKENDS + len(FUNCTIONALITIES))) - 1


def bits_of(key: DispatchKey) -> int:
    """The word of a set with this one key; 0 for Undefined and for an alias."""
    functionality = key.functionality
    if functionality in (DispatchKey.Undefined, DispatchKey.EndOfFunctionalityKeys):
        return 0
    word: int = 1 << (NUM_BACKENDS + functionality.value - 1)
    return word | (1 << key.backend_bit if key.backend_bit >= 0 else 0)


_SLOT_BY_LENGTH = [
    (SLOT_OF[runtime_key(key, 0) if key.is_per_backend else key], key.is_per_backend)
    for key in (DispatchKey.Undefined, *FUNCTIONALITIES)
]


def slot_of_bits(bits: int) -> int:
    """Index of the table slot a call with this word runs, 0 (Undefined) to 136.

    Without a backend bit, a per-backend functionality lands on the first backend's slot.

    Source   c10/core/DispatchKeySet.h  DispatchKeySet::getDispatchTableIndexForDispatchKeySet
    """
    offset, per_backend = _SLOT_BY_LENGTH[(bits >> NUM_BACKENDS).bit_length()]
    return offset + backend_index_of_bits(bits) if per_backend else offset


def backend_index_of_bits(bits: int) -> int:
    """Number of the highest backend bit, 0 when there is none.

    Source   c10/core/DispatchKeySet.h  DispatchKeySet::getBackendIndex
    """
    return max((bits & BACKEND_MASK).bit_length() - 1, 0)


class DispatchKeySet:
    """An immutable set of dispatch keys; iterating yields runtime keys, weakest first.

    keys   any number of keys; an alias adds nothing, as in c10

    Source   c10/core/DispatchKeySet.h  DispatchKeySet
    """

    __slots__ = ("raw",)
    raw: int
    """The word itself."""

    def __init__(self, *keys: DispatchKey | str) -> None:
        raw = 0
        for key in keys:
            raw |= bits_of(DispatchKey.parse(key))
        object.__setattr__(self, "raw", raw)

    @classmethod
    def from_raw_repr(cls, raw: int) -> "DispatchKeySet":
        """The set with this word.

        Raises   ValueError   bits outside the 62 that mean something
        """
        if not 0 <= raw <= FULL_MASK:
            raise ValueError(f"raw key set {raw:#x} is outside 0..{FULL_MASK:#x}")
        return keyset(raw)

    @classmethod
    def full(cls) -> "DispatchKeySet":
        """Every bit."""
        return keyset(FULL_MASK)

    @classmethod
    def full_after(cls, key: DispatchKey | str) -> "DispatchKeySet":
        """Every backend and every functionality weaker than `key`, plus PythonDispatcher.

        What a layer leaves to the layers below it: `op.redispatch(ks & full_after(mine), ...)`.

        Source   c10/core/DispatchKeySet.h  DispatchKeySet::DispatchKeySet
        """
        functionality = DispatchKey.parse(key).functionality
        below = (1 << (NUM_BACKENDS + max(functionality.value - 1, 0))) - 1
        return keyset(below | bits_of(DispatchKey.PythonDispatcher))

    def raw_repr(self) -> int:
        """The word itself."""
        return self.raw

    def __or__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return _SETS[self.raw | other.raw]

    def __and__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return _SETS[self.raw & other.raw]

    def __xor__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return _SETS[self.raw ^ other.raw]

    def __sub__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        """Without the other's functionalities; backend bits stay, since nobody owns them."""
        return keyset(self.raw & (BACKEND_MASK | ~other.raw))

    def add(self, key: DispatchKey | str) -> "DispatchKeySet":
        """With the key's functionality bit, and its backend bit if it has one."""
        return self | DispatchKeySet(key)

    def remove(self, key: DispatchKey | str) -> "DispatchKeySet":
        """Without the key's functionality bit; its backend bit stays.

        Source   c10/core/DispatchKeySet.h  Note [Removing keys from DispatchKeySet Only
                 Affects Functionality Keys]
        """
        return self - DispatchKeySet(key)

    def has(self, key: DispatchKey | str) -> bool:
        """True when all the key's bits are here.

        Raises   ValueError   Undefined, which is in every set and in none
        """
        wanted = DispatchKey.parse(key)
        if wanted is DispatchKey.Undefined:
            raise ValueError("Undefined has no bit, so no set has it or lacks it")
        return self.has_all(DispatchKeySet(wanted))

    def has_all(self, other: "DispatchKeySet") -> bool:
        """True when every bit of the other is here."""
        return self.raw & other.raw == other.raw

    def highest_functionality(self) -> DispatchKey:
        """The strongest functionality here, Undefined when there is none."""
        return DispatchKey((self.raw >> NUM_BACKENDS).bit_length())

    def highest_backend(self) -> int:
        """Number of the highest backend bit, -1 when there is none."""
        return (self.raw & BACKEND_MASK).bit_length() - 1

    def highest_priority_type_id(self) -> DispatchKey:
        """The runtime key that wins: highest functionality joined with highest backend.

        Differs  A per-backend functionality without any backend names its group's marker, as in
                 c10, although its slot is the first backend's.
        """
        functionality = self.highest_functionality()
        if functionality.is_per_backend:
            return runtime_key(functionality, self.highest_backend())
        return functionality

    def table_index(self) -> int:
        """Index of the slot a call with this set runs."""
        return slot_of_bits(self.raw)

    def slot_key(self) -> DispatchKey:
        """The runtime key of that slot."""
        return RUNTIME_KEYS[slot_of_bits(self.raw)]

    def __iter__(self) -> Iterator[DispatchKey]:
        """Every runtime key: a per-backend functionality once per backend that is present.

        Source   c10/core/DispatchKeySet.h  DispatchKeySet::iterator
        """
        backends = [bit for bit in range(NUM_BACKENDS) if self.raw >> bit & 1]
        for functionality in self.functionalities():
            if functionality.is_per_backend:
                yield from (runtime_key(functionality, bit) for bit in backends)
            else:
                yield functionality

    def functionalities(self) -> tuple[DispatchKey, ...]:
        """The functionality bits that are set, weakest first."""
        word = self.raw >> NUM_BACKENDS
        return tuple(key for key in FUNCTIONALITIES if word >> (key - 1) & 1)

    def backends(self) -> tuple[str, ...]:
        """Names of the backend bits that are set."""
        return tuple(name for bit, name in enumerate(BACKENDS) if self.raw >> bit & 1)

    def __bool__(self) -> bool:
        return self.raw != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        names = [key.name for key in self]
        unseen = [key.name for key in self.functionalities() if key.is_per_backend]
        if not self.backends() and unseen:  # iteration cannot show these
            names += [f"{name} on no backend" for name in unseen]
        elif not names and self.backends():
            names = [f"backend bit {name}" for name in self.backends()]
        return f"DispatchKeySet({', '.join(names)})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a DispatchKeySet does not change; cannot set {name!r} to {value!r}")

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return DispatchKeySet.from_raw_repr, (self.raw,)


class _Sets(dict[int, DispatchKeySet]):
    """Word -> its set, made when first asked for: a call meets the same few over and over."""

    def __missing__(self, raw: int) -> DispatchKeySet:
        if len(self) > 4096:  # a fuzzer meets millions
            self.clear()
        made = self[raw] = object.__new__(DispatchKeySet)
        object.__setattr__(made, "raw", raw)
        return made


_SETS = _Sets()


def keyset(raw: int) -> DispatchKeySet:
    """The set with this word, unchecked."""
    return _SETS[raw]
