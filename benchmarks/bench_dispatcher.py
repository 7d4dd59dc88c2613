"""What labkit's dispatcher costs beside PyTorch's, called from Python, and beside a mode.

labkit bench dispatcher
"""

from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.bench import Bench, Total
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import Dispatcher, Library, recording, torch_tables
from labkit.dispatch.layer_keys import AFTER_AUTOGRAD
from labkit.dispatch.table import compute_table


class Tensor:
    """Nothing but a key set: what is measured is the dispatch."""

    def __init__(self, *keys: str) -> None:
        self._key_set = DispatchKeySet(*keys)


class PassThrough(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def lab_add(dispatcher: Dispatcher):
    library = Library("lab", "DEF", dispatcher=dispatcher)
    add = library.define("add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    result = Tensor("CPU")

    def add_autograd(keys, a, b):
        return add.redispatch(keys & AFTER_AUTOGRAD, a, b)

    def add_cpu(a, b):
        return result

    library.impl("add", add_autograd, "Autograd", with_keyset=True)
    library.impl("add", add_cpu, "CPU")
    return add


CALLS = 100
"""Calls of the operator in one call of what is measured: a lambda would weigh as much as a hop."""


def repeated(call, *args):
    def body():
        for _ in range(CALLS):
            call(*args)

    return body


def in_mode(a, b):
    def body():
        with PassThrough():
            for _ in range(CALLS):
                torch.add(a, b)

    return body


def question(name, mine, other, goal=None):
    return Bench(name, mine, other, goal, calls=20, work=CALLS, clock="cpu")


def BENCHES() -> Iterator[Bench | Total]:
    dispatcher = Dispatcher()
    add = lab_add(dispatcher)
    leaf, plain = Tensor("CPU", "AutogradCPU"), Tensor("CPU")
    a, b = torch.ones(1), torch.ones(1)
    grad = torch.ones(1, requires_grad=True)
    one_hop, two_hops = repeated(add, plain, plain), repeated(add, leaf, leaf)
    torch_add = repeated(torch.add, a, b)

    yield question("two hops / torch.add", two_hops, torch_add, 0.7)
    yield question("two hops / torch.add that records", two_hops, repeated(torch.add, grad, b))
    yield question("two hops / __torch_dispatch__ mode", two_hops, in_mode(a, b), 0.2)
    yield question("one hop / torch.add", one_hop, torch_add)

    never_traced = lab_add(Dispatcher())
    with recording(dispatcher):
        add(leaf, leaf)  # traced once, then switched off: nothing may be left of it
    again = repeated(never_traced, leaf, leaf)
    yield question("two hops, tracing switched off / never traced", two_hops, again, 1.1)

    names = torch_tables.operator_names()
    kernels = [torch_tables.kernels_of(name) for name in names]
    fallbacks = torch_tables.global_fallbacks()

    def every_table():
        for one in kernels:
            compute_table(one, fallbacks)

    yield Total(f"all tables of all {len(names):,} operators", every_table, 3.0)
