"""A library banned as a whole cannot be reached, however an answer got hold of it."""

import functools
import gc
import importlib
import sys
import threading
import types

import numpy as np
import pytest
import torch

import labkit as lab
from labkit.course.checks import failing_cases
from labkit.course.exercises import find
from tests.course import toys

array_type = np.ndarray
no_functions = torch._C.DisableTorchFunction
reduce_add = np.add.reduce
HELD = {"deep": [(torch.zeros(()),)]}


def by_a_saved_type(values):
    out = array_type((1,), dtype="int64")
    out[0] = sum(values)
    return int(out[0])


def with_modes_off_by_name(values):
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return int(torch.tensor(values, dtype=torch.int64).sum())


def with_a_saved_switch(values, off=torch._C._DisableTorchDispatch):
    with no_functions(), off():
        return sum(values)


def by_a_saved_tensor(values):
    return int(HELD["deep"][0][0] + sum(values))


class Adder:
    zero = np.int64(0)
    add = torch.Tensor.__radd__

    def __call__(self, values):
        return int(self.zero + sum(values))


def in_a_generator():
    add = torch.add
    values = yield
    while True:
        values = yield int(add(torch.tensor(sum(values)), 0))


started = in_a_generator()
next(started)


def by_a_generator(values):
    return started.send(values)


half_called = functools.partial(reduce_add, dtype=int)


def by_partial(values):
    return int(half_called(values))


def closed_over(add):
    return lambda values: int(add(values))


def by_helper(values):
    return by_a_saved_type(values)


def by_all_globals(values):
    return int(globals()["reduce_" + "add"](values))


def by_modules_loaded(values):
    return int(sys.modules["numpy"].sum(values, dtype=int))


def by_another_name(values):
    return int(importlib.import_module("torch._C")._VariableFunctions.tensor(values).sum())


def by_from_import(values):
    from numpy._core.multiarray import array

    return int(array(values, dtype=int).sum())


def by_the_globals_of_others(values):
    return int(toys.torch.tensor(sum(values)))


def by_globals_of_a_function(values):
    return toys.helper.__globals__["sum"](values) if values is None else sum(values)


def by_everything_alive(values):
    kinds = [kind for kind in gc.get_objects() if isinstance(kind, type)]
    return sum(values) if kinds else 0


def by_subclasses(values):
    kinds = {kind.__name__: kind for kind in object.__subclasses__()}
    return int(kinds["ndarray"]((1,), dtype="int64").size - 1 + sum(values))


def by_a_part_not_loaded(values):
    from numpy import f2py

    return sum(values) if f2py else 0


def hides_it(values):
    try:
        return int(np.sum(values))
    except BaseException:
        return sum(values)


@pytest.mark.parametrize(
    "answer",
    [
        by_a_saved_type, with_modes_off_by_name, with_a_saved_switch, by_a_saved_tensor, Adder(),
        by_a_generator, by_partial, closed_over(reduce_add), by_helper, by_all_globals,
        by_modules_loaded, by_another_name, by_from_import, by_the_globals_of_others,
        by_globals_of_a_function, by_everything_alive, by_subclasses, by_a_part_not_loaded,
        hides_it, reduce_add, np.zeros(1).__class__.sum,
    ],
)  # fmt: skip
def test_no_way_leads_to_a_banned_library(answer):
    assert failing_cases(toys.no_libraries, answer, 3, search=False)[0].kind == "banned"


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (by_a_saved_type, "holds array_type, which is numpy.ndarray"),
        (by_helper, "holds array_type, which is numpy.ndarray"),
        (with_modes_off_by_name, "used torch._C"),
        (by_modules_loaded, "used numpy.sum"),
    ],
)
def test_the_verdict_names_what_was_reached(answer, what):
    assert failing_cases(toys.no_libraries, answer, 3, search=False)[0].got == what


ZERO = {"start": [0]}


class Sums:
    def __init__(self):
        self.start = ZERO["start"][0]

    def of(self, values):
        return functools.reduce(lambda one, other: one + other, values, self.start)


def by_a_class(values, make=Sums):
    if values is None:
        return np.sum(values)
    return make().of(values)


def imports_python(values):
    from collections import namedtuple
    from dataclasses import make_dataclass

    pair = namedtuple("pair", "one other")(0, make_dataclass("kept", ["value"])(sum(values)))
    return pair.one + pair.other.value


@pytest.mark.parametrize("answer", [sum, by_a_class, imports_python, lambda v: Sums().of(v)])
def test_what_holds_no_library_passes(answer):
    assert failing_cases(toys.no_libraries, answer, 3) == []


def test_libraries_are_as_before_afterwards():
    before = {name: type(module) for name, module in sys.modules.items()}
    assert failing_cases(toys.no_libraries, by_modules_loaded, 3)
    assert {name: type(sys.modules[name]) for name in before} == before
    assert type(torch) is type(np) is types.ModuleType


def test_another_thread_may_use_the_library_meanwhile():
    asked, done, found = threading.Event(), threading.Event(), []

    def meanwhile():
        asked.wait(20)
        found.append(int(torch.ones(2).sum()) + int(np.sum([1])))
        done.set()

    def waits(values):
        asked.set()
        done.wait(20)
        return sum(values)

    thread = threading.Thread(target=meanwhile)
    thread.start()
    assert failing_cases(toys.no_libraries, waits, 3) == []
    thread.join()
    assert found == [3]


def test_a_real_exercise_refuses_a_saved_type():
    def strided(*inputs):
        return array_type

    assert failing_cases(find("strides.needed"), strided, 3, search=False)[0].kind == "banned"


def test_nothing_that_was_there_before_is_collected_while_an_answer_runs():
    enabled, freed, running = set(), [], [False]

    class Dropped:
        def __del__(self):
            freed.append(running[0])

    def add_up(values):
        running[0] = True
        held.clear()  # from here on only the collector frees it
        gc.collect()
        enabled.add(gc.isenabled())
        running[0] = False
        return sum(values)

    held = [[Dropped()]]
    held[0].append(held[0])
    assert failing_cases(toys.add_up, add_up, 3) == []
    assert enabled == {False} and gc.isenabled() and gc.get_freeze_count() == 0
    gc.collect()
    assert freed == [False]


def test_an_answer_that_collects_is_not_blamed_for_what_labkit_frees():
    def needed(sizes, strides, offset):
        gc.collect()
        if 0 in sizes:
            return 0
        return offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1

    dropped = [lab.zeros(3)]
    dropped.append(dropped)
    del dropped
    assert failing_cases(find("strides.needed"), needed, 1) == []
