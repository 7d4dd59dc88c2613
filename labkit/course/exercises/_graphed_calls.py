"""A function behind captured graphs, called with inputs of several shapes, and what came of it."""

import contextlib
import math
from typing import Any

import labkit as lab
from labkit import cuda
from labkit.course.exercise import Rng, handed_out
from labkit.cuda import tensor_memory
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CaptureError
from labkit.graphed import is_current_stream_capturing
from labkit.memory.storages.cuda_storages import CudaStorages

Call = tuple[str, tuple[int, ...], str, list[float]]
"""("call" or "fail", shape, dtype, numbers); a call that fails raises inside its capture."""


DEFAULT, ANOTHER = "the default stream", "another stream"
"""The current stream of all calls of a script."""


class Device:
    """One emulated device for all cases, with a caching allocator of its own."""

    driver: EmulatorDriver | None = None
    storages = CudaStorages()

    @classmethod
    def fresh(cls) -> EmulatorDriver:
        """The device, idle; another one where an earlier answer has never ended its capture."""
        if cls.driver is not None:
            try:
                cls.driver.synchronize()
                return cls.driver
            except CaptureError:
                cls.storages = CudaStorages()
        cls.driver = EmulatorDriver(capacity=1 << 28, why="for graphs")
        return cls.driver


class Work:
    """The function: relu(scale * x + 1). It writes scale * x to x; its scale is brought to the
    device by the first call with a shape and element type.
    """

    def __init__(self) -> None:
        self.scales: dict[Any, Any] = {}
        self.made: list[tuple[int, ...]] = []
        self.captured_on: list[Any] = []
        self.fails = False

    def __call__(self, x: Any) -> Any:
        self.made.append(tuple(x.shape))
        kind = tuple(x.shape), x.dtype
        if kind not in self.scales:
            self.scales[kind] = lab.tensor([3.0], dtype=x.dtype).to("cuda")
        x.copy_(self.scales[kind] * x)
        if is_current_stream_capturing():
            self.captured_on.append(cuda.current_stream())
            if self.fails:
                self.fails = False
                raise ArithmeticError("the function failed while it was captured")
        return (x + 1).relu()

    def neighbours(self) -> list[Any]:
        """Tensors of ones, made where the captures of the last call may have left memory free."""
        made = []
        for stream in self.captured_on:
            with stream:
                made += [lab.ones(4, device="cuda") for _ in range(3)]
            stream.synchronize()
        self.captured_on.clear()
        return made


_TYPES = {"float32": "float64", "float64": "float32"}


def calls(
    *, shapes: int, fails: bool = False, least: int = 2, streams: tuple[str, ...] = (DEFAULT,)
) -> Any:
    """Makes cases of up to so many shapes; those of several have two element types."""

    def case(rng: Rng, size: int) -> tuple[list[Call], str]:
        drawn = {(rng.randint(1, 4), rng.randint(1, 4)): None for _ in range(1 + shapes)}
        pool = list(drawn)[:shapes]
        if shapes > 1:
            pool.append((pool[0][0], pool[0][1] + 1))  # as many rows, and more columns
        script: list[Call] = []
        for _ in range(rng.randint(least, least + 1 + size)):
            shape = rng.choice(pool)
            numbers = [float(rng.randint(-5, 5)) for _ in range(math.prod(shape))]
            dtype = rng.choice(("float32", "float64")) if shapes > 1 else "float32"
            script.append(("call", shape, dtype, numbers))
        if shapes > 1:
            last = script[-1]
            script.append((*last[:2], _TYPES[last[2]], last[3]))
            script.append(("call", last[1][::-1], *last[2:]))  # as many numbers in all
        if fails:
            script[0] = ("fail", *script[0][1:])
            script.append(("call", *script[0][1:]))
        return script, rng.choice(streams)

    return case


def drive_calls(answer: Any, script: list[Call], stream: str) -> dict[str, Any]:
    """All results, read after the last call; the inputs afterwards; which calls ran the function
    although their shape and dtype were captured; and whether tensors that were made between two
    calls still hold their ones.
    """
    driver = Device.fresh()
    before = tensor_memory.serving()
    work, results, inputs, again, others = Work(), [], [], [], []
    with cuda.use(driver), contextlib.ExitStack() as current:
        tensor_memory.install(Device.storages)
        Device.storages.current.empty_cache()  # the pools of earlier answers
        try:
            graphed, known = answer(work), set()
            if stream == ANOTHER:
                current.enter_context(cuda.Stream())
            for number, (what, shape, dtype, numbers) in enumerate(script):
                host = lab.tensor(numbers, dtype=getattr(lab, dtype)).reshape(shape)
                inputs.append(host.to("cuda"))
                work.fails, ran = what == "fail", len(work.made)
                try:
                    results.append(graphed(inputs[-1]))
                except ArithmeticError:
                    results.append(None)
                    continue
                if (shape, dtype) in known and len(work.made) > ran:
                    again.append(number)
                known.add((shape, dtype))
                others += work.neighbours()
            read = [None if one is None else one.tolist() for one in results]
            types = [None if one is None else str(one.dtype)[len("labkit.") :] for one in results]
            kept = [one.tolist() for one in inputs]
            whole = all(one.tolist() == [1.0] * 4 for one in others)
        finally:
            tensor_memory.install(before)
    return _report(read, types, kept, again, whole)


@handed_out
def _report(results: Any, types: Any, inputs: Any, again: list[int], whole: bool) -> dict[str, Any]:
    return {
        "results": results,
        "element types": types,
        "inputs afterwards": inputs,
        "ran the function again in": again,
        "tensors made between calls keep their numbers": whole,
    }


def right_calls(script: list[Call], stream: str) -> dict[str, Any]:
    """What a right answer gives."""

    def rows(shape: tuple[int, ...], numbers: list[float]) -> list[list[float]]:
        return [numbers[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])]

    results: list[Any] = []
    types: list[Any] = []
    for what, shape, dtype, numbers in script:
        if what == "fail":
            results.append(None)
            types.append(None)
            continue
        types.append(dtype)
        results.append(rows(shape, [max(0.0, 3 * n + 1) for n in numbers]))
    kept = [rows(shape, numbers) for _, shape, _, numbers in script]
    return _report(results, types, kept, [], True)
