"""A C library that watches its callers: what they read, and which handles they give back."""

import copy
import ctypes
import gc
from itertools import count
from typing import Any

import torch

from labkit.course.exercise import Rng, handed_out

Step = tuple[Any, ...]
ELEMENTS = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}

BEYOND_FLOATS = 2**25
"""Around it a float32 holds no odd number, and a double holds each."""

# --- sums over an address


@handed_out
class Sum:
    """The C function `double sum(const T* first, long count)`, which sees freed memory.

    Called with memory that no living tensor holds, it returns NaN.
    """

    def __init__(self, dtype: torch.dtype, given: torch.Tensor) -> None:
        self.element, self.given = ELEMENTS[dtype], given

    def __call__(self, address: int, count: int) -> float:
        """The sum of `count` elements from the address on."""
        nbytes = count * ctypes.sizeof(self.element)
        new = [one for one in gc.get_objects(generation=0) if type(one) is torch.Tensor]
        for tensor in (self.given, *new):
            start = tensor.untyped_storage().data_ptr()
            if start <= address and address + nbytes <= start + tensor.untyped_storage().nbytes():
                return float(sum((self.element * count).from_address(address)))
        return float("nan") if count else 0.0


def drive_sum(answer: Any, x: torch.Tensor) -> Any:
    """The answer's sum of x; tensors that it makes are the only young objects."""
    sums = {dtype: Sum(dtype, x) for dtype in ELEMENTS}
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        return answer(x, sums)
    except TypeError:
        if x.dtype in ELEMENTS:  # not a refusal: its words are shown
            raise
        return "a TypeError"
    finally:
        if was_on:
            gc.enable()


def a_tensor(rng: Rng, size: int, kinds: tuple[str, ...], dtypes: Any) -> tuple[torch.Tensor]:
    """A tensor of whole numbers, laid out in one of these ways; no float32 holds all doubles."""
    kind = rng.choice(kinds)
    sizes = (rng.randint(2, 3), rng.randint(2, 4))
    x = rng.tensor({"number": (), "empty": (0, 3)}.get(kind, sizes), rng.choice(dtypes))
    if x.dtype == torch.float64:
        x = x + BEYOND_FLOATS
    if kind == "turned":
        x = x.t()
    elif kind == "gaps":
        x = x[:, ::2]
    elif kind == "row":
        x = x[-1]
    elif kind == "front":
        x = x[:1]
    elif kind == "repeated":
        x = x[:1].expand(3, -1)
    return (x,)


# --- handles

STATUS_OK, STATUS_REFUSED = 0, 1


@handed_out
class Counters:
    """The C library: `make`, `add`, `total`, `message` and `drop`; it notes what is done with it.

    log   ("make", n), ("add", n, amount), ("drop", n), ... with the number of the counter
    """

    def __init__(self) -> None:
        self.log: list[Step] = []
        self._totals: dict[int, int] = {}
        self._numbers: dict[int, int] = {}

    def make(self) -> int:
        """The handle of a new counter: an address."""
        handle = 0x7F00_9000_0000 + 0x40 * len(self._numbers)
        self._numbers[handle], self._totals[handle] = len(self._numbers), 0
        self.log.append(("make", self._numbers[handle]))
        return handle

    def add(self, handle: int, amount: int) -> int:
        """0, and the amount is added; or 1, and `message()` says why not."""
        if not self._noted("add", handle) or amount < 0:
            return STATUS_REFUSED
        self._totals[handle] += amount
        return STATUS_OK

    def message(self) -> bytes:
        """Why the last call was refused: what ctypes makes of a `const char*`."""
        return b"it does not go down"

    def total(self, handle: int) -> int:
        """What was added so far."""
        return self._totals[handle] if self._noted("total", handle) else -1

    def drop(self, handle: int) -> None:
        """The counter is gone. Its handle must not be used again."""
        if self._noted("drop", handle):
            del self._totals[handle]

    def _noted(self, what: str, handle: int) -> bool:
        alive = handle in self._totals
        number = self._numbers.get(handle, "no handle of mine")
        self.log.append((what, number) if alive else (f"{what} of a dead one", number))
        return alive


def handle_program(rng: Rng, size: int, *extra: str) -> list[Step]:
    """("make", name), ("add", name, amount), ("total", name), ("del", name), ..."""
    alive: list[str] = []
    program: list[Step] = []
    made = count()
    for _ in range(3 + size):
        if not alive or rng.chance(0.3):
            alive.append(f"c{next(made)}")
            program.append(("make", alive[-1]))
            continue
        name, kind = rng.choice(alive), rng.random()
        if kind < 0.35:
            low = -2 if "errors" in extra else 0
            program.append(("add", name, rng.randint(low, 5)))
        elif kind < 0.55:
            program.append(("total", name))
        elif kind < 0.7 and "close" in extra:
            program.append(("close", name))
        elif kind < 0.85 and "ends" in extra:
            alive.remove(name)
            program.append(("del", name))
        elif "copies" in extra:
            program.append((rng.choice(("copy", "deepcopy")), name))
    if "ends" in extra:
        program += [("del", name) for name in alive]
    return program


def drive_handles(answer: Any, program: list[Step]) -> Any:
    """What each step returned or raised, and what the library noted."""
    lib, objects, said = Counters(), dict[str, Any](), list[Any]()
    for what, name, *amount in program:
        try:
            said.append(_step(answer, lib, objects, what, name, *amount))
        except NotImplementedError:
            raise
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
            del error
    return {"each step": said, "noted by the library": lib.log}


def _step(answer: Any, lib: Any, objects: Any, what: str, name: str, *amount: int) -> Any:
    if what == "make":
        objects[name] = answer(lib)
    elif what == "del":
        del objects[name]
        gc.collect(0)
    elif what in ("copy", "deepcopy"):
        getattr(copy, what)(objects[name])
    else:
        return getattr(objects[name], what)(*amount)
    return None
