"""A function behind captured graphs, called with inputs of several shapes, and what came of it."""

import math
from typing import Any

import labkit as lab
from labkit import cuda
from labkit.course.exercise import Rng
from labkit.cuda import tensor_memory
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.graphed import is_current_stream_capturing
from labkit.memory.storages.cuda_storages import CudaStorages

Call = tuple[str, tuple[int, ...], list[float]]
"""("call" or "fail", shape, numbers); a call that fails raises inside its capture."""


class Device:
    """One emulated device for all cases, with a caching allocator of its own."""

    driver: EmulatorDriver | None = None
    storages = CudaStorages()

    @classmethod
    def fresh(cls) -> EmulatorDriver:
        """The device, idle."""
        if cls.driver is None:
            cls.driver = EmulatorDriver(capacity=1 << 28, why="for graphs")
        cls.driver.synchronize()
        return cls.driver


class Work:
    """The function: relu(scale * x + 1); its scale is brought to the device by the first call."""

    def __init__(self) -> None:
        self.scale: Any = None
        self.made: list[tuple[int, ...]] = []
        self.fails = False

    def __call__(self, x: Any) -> Any:
        self.made.append(tuple(x.shape))
        if self.scale is None:
            self.scale = lab.tensor([3.0]).to("cuda")
        y = self.scale * x
        if self.fails and is_current_stream_capturing():
            self.fails = False
            raise ArithmeticError("the function failed while it was captured")
        return (y + 1).relu()


def calls(*, shapes: int, fails: bool = False, least: int = 2) -> Any:
    """Makes cases of up to so many shapes."""

    def case(rng: Rng, size: int) -> tuple[list[Call]]:
        drawn = {(rng.randint(1, 4), rng.randint(1, 4)): None for _ in range(1 + shapes)}
        pool = list(drawn)[:shapes]
        if shapes > 1:
            pool.append((pool[0][0], pool[0][1] + 1))  # as many rows, and more columns
        script: list[Call] = []
        for _ in range(rng.randint(least, least + 1 + size)):
            shape = rng.choice(pool)
            numbers = [float(rng.randint(-5, 5)) for _ in range(math.prod(shape))]
            script.append(("call", shape, numbers))
        if fails:
            script[0] = ("fail", *script[0][1:])
            script.append(("call", *script[0][1:]))
        return (script,)

    return case


def drive_calls(answer: Any, script: list[Call]) -> dict[str, Any]:
    """All results, read after the last call; the inputs afterwards; which calls ran the function
    although their shape was captured.
    """
    driver = Device.fresh()
    before = tensor_memory.serving()
    work, results, inputs, again = Work(), [], [], []
    with cuda.use(driver):
        tensor_memory.install(Device.storages)
        Device.storages.current.empty_cache()  # the pools of earlier answers
        try:
            graphed, known = answer(work), set()
            for number, (what, shape, numbers) in enumerate(script):
                inputs.append(lab.tensor(numbers).reshape(shape).to("cuda"))
                work.fails, ran = what == "fail", len(work.made)
                try:
                    results.append(graphed(inputs[-1]))
                except ArithmeticError:
                    results.append(None)
                    continue
                if shape in known and len(work.made) > ran:
                    again.append(number)
                known.add(shape)
            read = [None if one is None else one.tolist() for one in results]
            kept = [one.tolist() for one in inputs]
        finally:
            tensor_memory.install(before)
    return {"results": read, "inputs afterwards": kept, "ran the function again in": again}


def right_calls(script: list[Call]) -> dict[str, Any]:
    """What a right answer gives."""

    def rows(shape: tuple[int, ...], numbers: list[float]) -> list[list[float]]:
        return [numbers[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])]

    failed: set[Any] = set()
    results: list[Any] = []
    known: set[Any] = set()
    for what, shape, numbers in script:
        if what == "fail" and shape not in known:
            failed.add(shape)
            results.append(None)
            continue
        known.add(shape)
        results.append(rows(shape, [max(0.0, 3 * n + 1) for n in numbers]))
    kept = [rows(shape, numbers) for _, shape, numbers in script]
    return {"results": results, "inputs afterwards": kept, "ran the function again in": []}
