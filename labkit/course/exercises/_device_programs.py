"""Programs of tensors that come and go, and of threads that change device: made, run, drawn."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np

from labkit.course.exercise import Case, Evidence, Rng, handed_out
from labkit.course.exercises._fewer import fewer

Step = tuple[Any, ...]

# --- tensors that come and go


def tensor_program(rng: Rng, size: int, *extra: str) -> list[Step]:
    """("new", name, bytes, stream), ("view", name, of), ("drop", name) in an order that can run.

    extra   what else there is: "views", "streams", "pinned"
    """
    alive: list[str] = []
    program: list[Step] = []
    for number in range(2 + size + rng.randint(0, 2 + size)):
        name, kind = f"t{number}", rng.random()
        if alive and kind < 0.35:
            program.append(("drop", alive.pop(rng.randrange(len(alive)))))
            continue
        if alive and kind < 0.6 and "views" in extra:
            program.append(("view", name, rng.choice(alive)))
        elif kind < 0.7 and "pinned" in extra:
            program.append(("pinned", name, _bytes(rng)))
        else:
            stream = rng.choice((0, 7, 8)) if "streams" in extra else 0
            program.append(("new", name, _bytes(rng), stream))
        alive.append(name)
    return [*program, *[("drop", name) for name in rng.sample(alive, len(alive))]]


def _bytes(rng: Rng) -> int:
    return rng.choice((4, 400, 512, 600, 1_000, 4_096))


def fewer_steps(program: list[Step]) -> Iterator[list[Step]]:
    """The program with fewer steps, where no step names a tensor that is not there."""
    return fewer(program, _names_what_lives)


def _names_what_lives(program: list[Step]) -> bool:
    alive: set[str] = set()
    for verb, name, *others in program:
        named = {"drop": [name], "view": others}.get(verb, [])
        if not alive.issuperset(named):
            return False
        alive = alive - {name} if verb == "drop" else alive | {name}
    return True


def said_of_tensors(program: list[Step]) -> str:
    """The program, a numbered call for each step."""
    calls = [("empty" if verb == "new" else verb, arguments) for verb, *arguments in program]
    return "\n".join(
        f"{number:2} {verb}({', '.join(map(repr, arguments))})"
        for number, (verb, arguments) in enumerate(calls)
    )


def storages(program: list[Step]) -> dict[str, str]:
    """Tensor -> the tensor that its storage was made for."""
    found: dict[str, str] = {}
    for step in program:
        if step[0] == "view":
            found[step[1]] = found[step[2]]
        elif step[0] != "drop":
            found[step[1]] = step[1]
    return found


def freed(program: list[Step]) -> list[tuple[int, str]]:
    """(number of the step, storage): when the last tensor of each storage goes."""
    of, alive, found = storages(program), set[str](), []
    for number, step in enumerate(program):
        if step[0] != "drop":
            alive.add(step[1])
            continue
        alive.remove(step[1])
        if of[step[1]] not in {of[name] for name in alive}:
            found.append((number, of[step[1]]))
    return found


ROUND = 512
HOST = 1_000_000
"""Where the addresses of pinned memory begin: far behind those of blocks."""
ASKED = "the pool was asked (step, call, ...)"


@handed_out
class Pool:
    """A caching pool: `malloc` and `free` of device blocks, `host` and `host_free` of pinned ones.

    log   what was asked of it, each with the number of the step it was asked in
    """

    def __init__(self) -> None:
        self.log: list[Step] = []
        self.step = 0
        self._sizes: dict[int, int] = {}
        self._of: dict[int, int] = {}
        self._free: list[tuple[int, int]] = []
        self._next = 8 * ROUND

    def malloc(self, nbytes: int, stream: int) -> int:
        """The address of a block for work on the stream."""
        self.log.append((self.step, "malloc", nbytes, stream))
        size = -(-nbytes // ROUND) * ROUND
        for address, free_stream in self._free:
            if self._sizes[address] == size and free_stream == stream:
                self._free.remove((address, stream))
                return address
        address, self._next = self._next, self._next + size
        self._sizes[address], self._of[address] = size, stream
        return address

    def free(self, address: int) -> None:
        """The block can be used again on its stream."""
        self.log.append((self.step, "free", address))
        if address in self._of and (address, self._of[address]) not in self._free:
            self._free.append((address, self._of[address]))

    def size(self, address: int) -> int:
        """Bytes of the block that `malloc` gave: at least what was asked for."""
        return self._sizes[address]

    def host(self, nbytes: int) -> int:
        """The address of pinned host memory."""
        self.log.append((self.step, "host", nbytes))
        self._next += 8 * ROUND
        return self._next - 8 * ROUND + HOST

    def host_free(self, address: int) -> None:
        """It is given back."""
        self.log.append((self.step, "host_free", address))


def drive_tensors(answer: Any, program: list[Step], counts: bool) -> Any:
    """What a program's tensors ask of the pool, when `answer(pool)` serves them."""
    pool = Pool()
    serving = answer(pool)
    addresses: list[Any] = []
    allocated: list[Any] = []
    for number, step in enumerate(program):
        pool.step = number
        verb, *arguments = step
        address = getattr(serving, "empty" if verb == "new" else verb)(*arguments)
        if verb != "drop":
            addresses.append((step[1], address))
        if counts:
            allocated.append(serving.allocated())
    said: dict[str, Any] = {"addresses": addresses, ASKED: pool.log}
    return said | ({"allocated() after each step": allocated} if counts else {})


def held_picture(case: Case, got: Any, right: Any) -> Any:
    """A row for each storage, a column for each step: 1 while its block is in use.

    None where that is right, and something else is wrong.
    """
    from labkit.widgets.cuda.tile_view import TileView

    program = case.inputs[0]
    rows = list(dict.fromkeys(storages(program).values()))
    yours, wanted = (
        _held(program, rows, value["addresses"], value[ASKED]) for value in (got, right)
    )
    if np.array_equal(yours, wanted):
        return None
    status = np.where(yours == wanted, "right", "wrong")
    plain = np.full(wanted.shape, "right")
    return TileView(
        [
            {"name": "yours: 1 while the block is in use", "values": yours, "status": status},
            {"name": "right", "values": wanted, "status": plain},
        ]
    )


def _held(program: list[Step], rows: list[str], addresses: Any, log: list[Step]) -> Any:
    held = np.zeros((len(rows), len(program)), int)
    at = dict(addresses)
    for row, name in enumerate(rows):
        begin = next(i for i, step in enumerate(program) if step[1] == name)
        ends = [
            entry[0]
            for entry in log
            if entry[1] in ("free", "host_free") and entry[2] == at.get(name) and entry[0] >= begin
        ]
        held[row, begin : min(ends, default=len(program))] = 1
    return held


def asks_differ(word: str) -> Callable[[Evidence], bool]:
    """Whether the pool was asked this another number of times, or otherwise, than is right."""

    def when(evidence: Evidence) -> bool:
        yours, right = (
            [entry for entry in value[ASKED] if entry[1] == word]
            for value in (evidence.value, evidence.right)
        )
        return yours != right

    return when


# --- threads that change device

THREADS = 2
SWALLOWED = "the error was swallowed"


def thread_program(rng: Rng, size: int, *extra: str) -> list[Step]:
    """(thread, what to do, ...): contexts are left in the order in which they can be.

    extra   what else there is: "raises", "threads", "streams", "draws"
    """
    depth = [0] * THREADS
    program: list[Step] = []
    for _ in range(4 + 2 * size):
        thread = rng.randrange(THREADS) if "threads" in extra else 0
        kind = rng.random()
        if depth[thread] and kind < 0.25:
            depth[thread] -= 1
            failing = "raises" in extra and rng.chance(0.5)
            program.append((thread, "leave by an error" if failing else "leave"))
        elif kind < 0.65:
            depth[thread] += 1
            device = rng.randrange(2)
            if "streams" in extra and rng.chance(0.6):
                program.append((thread, "stream", device, rng.randint(1, 3)))
            else:
                program.append((thread, "device", device))
        elif "draws" in extra:
            seeds = rng.chance(0.3)
            program.append(
                (thread, "seed", rng.randrange(2), rng.randint(1, 9)) if seeds else (thread, "draw")
            )
    return program


def fewer_turns(program: list[Step]) -> Iterator[list[Step]]:
    """The program with fewer steps, where a thread leaves no more contexts than it has entered."""
    return fewer(program, _leaves_what_it_entered)


def _leaves_what_it_entered(program: list[Step]) -> bool:
    depth = [0] * THREADS
    for thread, what, *_ in program:
        depth[thread] += (what in ("device", "stream")) - what.startswith("leave")
        if depth[thread] < 0:
            return False
    return True


def said_of_threads(program: list[Step]) -> str:
    """The program, a numbered line for each step."""
    return "\n".join(
        f"{number:2} thread {thread}: {_said_of_turn(*what)}"
        for number, (thread, *what) in enumerate(program)
    )


def _said_of_turn(what: str, *arguments: int) -> str:
    if what.startswith("leave"):
        return what
    call = f"lab.{what}({', '.join(map(str, arguments))})"
    return f"enter {call}" if what in ("device", "stream") else call


def drive_threads(answer: Any, program: list[Step]) -> dict[str, Any]:
    """What the thread of each step finds after it: its device and stream, or a drawn number."""
    lab = answer(2)
    workers = [_Worker(lab) for _ in range(THREADS)]
    try:
        return {
            f"draw() in step {number}" if step[1] == "draw" else f"current() after step {number}":
            workers[step[0]].does(step[1:])
            for number, step in enumerate(program)
        }  # fmt: skip
    finally:
        for worker in workers:
            worker.ends()


class _Worker:
    """A thread that does one step after the other; an error of a step is raised in `does`."""

    def __init__(self, lab: Any) -> None:
        self.lab, self.open = lab, list[Any]()
        self.asked: SimpleQueue[Any] = SimpleQueue()
        self.said: SimpleQueue[Any] = SimpleQueue()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def does(self, step: Step) -> Any:
        self.asked.put(step)
        value, error = self.said.get()
        if error is not None:
            raise error
        return value

    def ends(self) -> None:
        self.asked.put(None)
        self.thread.join(1)

    def work(self) -> None:
        while (step := self.asked.get()) is not None:
            try:
                self.said.put((self.step(*step), None))
            except BaseException as error:
                self.said.put((None, error))
        while self.open:  # what the program has not left
            with contextlib.suppress(Exception):
                self.open.pop().__exit__(None, None, None)

    def step(self, what: str, *arguments: Any) -> Any:
        if what in ("device", "stream"):
            self.open.append(getattr(self.lab, what)(*arguments))
            self.open[-1].__enter__()
        elif what == "leave":
            self.open.pop().__exit__(None, None, None)
        elif what == "leave by an error":
            error = ValueError("of the program")
            try:
                if self.open.pop().__exit__(ValueError, error, None):
                    return SWALLOWED
            except ValueError as raised:
                if raised is not error:
                    raise
        elif what == "draw":
            return self.lab.draw()
        else:
            self.lab.seed(*arguments)
        return tuple(self.lab.current())


def readings_picture(case: Case, got: Any, right: Any) -> Any:
    """Two rows: the device that each step's thread was on, yours and right."""
    from labkit.widgets.cuda.tile_view import TileView

    if not isinstance(got, dict) or got.keys() != right.keys():
        return None
    pairs = [(got[step], found) for step, found in right.items() if isinstance(found, tuple)]
    if not pairs or not all(isinstance(a, tuple) and len(a) == 2 for a, _ in pairs):
        return None
    grids = []
    for place, name in enumerate(("device", "stream")):
        values = np.array([[a[place] for a, _ in pairs], [b[place] for _, b in pairs]], int)
        same = np.where(values[0] == values[1], "right", "wrong")
        status = np.array([same, np.full(len(pairs), "right")])
        grids.append({"name": f"{name} after each step: yours, right", "values": values,
                      "status": status})  # fmt: skip
    return TileView(grids)
