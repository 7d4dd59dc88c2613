"""Random programs with views, in-place writes, hooks and grad modes, run by both sides.

A program is a list of steps over a growing list of values. Both sides run it; compared are what
every value is afterwards, every error's class and kind, the recorded graph, the order in which
backward calls nodes and hooks, and the gradients.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import labkit as lab
from labkit.conformance.autograd import graphs
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.tensors import copy

PROGRAMS = {"small": 150, "full": 20_000}
TOLERANCE = 1e-9
"""Relative, and absolute for numbers below 1: float64 sums in another order, which may be 0."""
KINDS = (
    "modified by an inplace operation", "leaf Variable that requires grad is being used in an",
    "a view of a leaf Variable that requires grad", "second time", "does not require grad",
    "is being modified inplace", "grad can be implicitly created only for scalar outputs",
    "inference", "can't retain_grad", "cannot register a hook", "must match the size",
    "Can't detach views in-place", "multiple views", "no_grad mode", "single memory location",
    "doesn't match the broadcast shape",
)  # fmt: skip
"""What an error is about; two errors of one class and one kind are equal."""


@dataclass(frozen=True)
class Step:
    """One call: `name` is a key of `ACTIONS`, `values` are places in the list of values.

    without_grad   inside no_grad
    """

    name: str
    values: tuple[int, ...]
    numbers: tuple[Any, ...] = ()
    without_grad: bool = False

    def __str__(self) -> str:
        given = ", ".join([f"v{place}" for place in self.values] + [repr(n) for n in self.numbers])
        return f"{'no_grad: ' if self.without_grad else ''}{self.name}({given})"


class Numbers:
    """What a tensor holds at this moment; None holds nothing. Equal but for rounding."""

    def __init__(self, tensor: Any) -> None:
        if isinstance(tensor, TensorImpl):
            self.values = copy.values(tensor).copy()
        else:
            self.values = np.array([] if tensor is None else tensor.detach().numpy())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Numbers):
            return NotImplemented
        a, b = self.values, other.values
        return a.shape == b.shape and np.allclose(a, b, TOLERANCE, TOLERANCE, equal_nan=True)

    def __str__(self) -> str:
        return f"{list(self.values.shape)} {' '.join(f'{v:.6g}' for v in self.values.ravel()[:6])}"


@dataclass
class Run:
    """One side's run of a program."""

    m: Any
    values: list[Any] = field(default_factory=list)
    events: list[tuple[str, Numbers]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def note(self, event: str, grad: Any = None) -> None:
        """Something happened, with a gradient or without."""
        self.events.append((event, Numbers(grad)))


Action = Callable[[Run, list[Any], tuple[Any, ...]], Any]


def _hook(run: Run, x: Any, numbers: tuple[Any, ...]) -> None:
    label, factor = numbers
    _ = x.grad_fn  # raises for a view that may not be made again; torch's register_hook crashes

    def hook(grad: Any) -> Any:
        run.note(f"hook {label}", grad)
        return None if factor is None else grad * factor

    x.register_hook(hook)


def _node_hooks(run: Run, x: Any, label: Any) -> None:
    if x.grad_fn is None:
        return
    x.grad_fn.register_prehook(lambda grads: run.note(f"prehook {label}", grads[0]))
    x.grad_fn.register_hook(lambda inputs, outputs: run.note(f"posthook {label}", outputs[0]))


def _post_accumulate(run: Run, x: Any, label: Any) -> None:
    x.register_post_accumulate_grad_hook(lambda leaf: run.note(f"accumulated {label}", leaf.grad))


def _apart(target: Any, source: Any) -> Any:
    """The source; its copy where it shows the memory written in another order: which of the two
    is read first is anybody's.
    """
    shared = target.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()
    seen = [(each.data_ptr(), each.shape, each.stride()) for each in (target, source)]
    return source.clone() if shared and seen[0] != seen[1] else source


def _set_item(run: Run, xs: list[Any], numbers: tuple[Any, ...]) -> None:
    xs[0][numbers[0]] = _apart(xs[0][numbers[0]], xs[1])


ACTIONS: dict[str, Action] = {
    "neg": lambda run, xs, n: -xs[0],
    "exp": lambda run, xs, n: xs[0].exp(),
    "sigmoid": lambda run, xs, n: xs[0].sigmoid(),
    "tanh": lambda run, xs, n: xs[0].tanh(),
    "relu": lambda run, xs, n: xs[0].relu(),
    "square": lambda run, xs, n: xs[0] ** 2,
    "clone": lambda run, xs, n: xs[0].clone(),
    "detach": lambda run, xs, n: xs[0].detach(),
    "add": lambda run, xs, n: xs[0] + xs[1],
    "sub": lambda run, xs, n: xs[0] - xs[1],
    "mul": lambda run, xs, n: xs[0] * xs[1],
    "scale": lambda run, xs, n: xs[0] * n[0],
    "sum": lambda run, xs, n: xs[0].sum(),
    "sum_dim": lambda run, xs, n: xs[0].sum(n[0], keepdim=True),
    "mean": lambda run, xs, n: xs[0].mean(),
    "stack": lambda run, xs, n: run.m.stack(xs),
    "cat": lambda run, xs, n: run.m.cat(xs, 0),
    "mm": lambda run, xs, n: xs[0].t() @ xs[1],
    "view": lambda run, xs, n: xs[0].view(-1),
    "reshape": lambda run, xs, n: xs[0].reshape(3, 2),
    "t": lambda run, xs, n: xs[0].t(),
    "select": lambda run, xs, n: xs[0].select(0, n[0]),
    "slice": lambda run, xs, n: xs[0][:, n[0] :],
    "narrow": lambda run, xs, n: xs[0].narrow(1, n[0], 2),
    "unsqueeze": lambda run, xs, n: xs[0].unsqueeze(n[0]),
    "expand": lambda run, xs, n: xs[0].sum(0).expand(2, 3),
    "diagonal": lambda run, xs, n: xs[0].diagonal(),
    "as_strided": lambda run, xs, n: xs[0].as_strided((2, 2), (3, 1), n[0]),
    "chunk": lambda run, xs, n: xs[0].chunk(2)[n[0]],
    "unbind": lambda run, xs, n: xs[0].unbind(0)[n[0]],
    "split": lambda run, xs, n: xs[0].split(2, 1)[n[0]],
    "add_": lambda run, xs, n: xs[0].add_(_apart(*xs)),
    "mul_": lambda run, xs, n: xs[0].mul_(n[0]),
    "neg_": lambda run, xs, n: xs[0].neg_(),
    "exp_": lambda run, xs, n: xs[0].exp_(),
    "relu_": lambda run, xs, n: xs[0].relu_(),
    "sigmoid_": lambda run, xs, n: xs[0].sigmoid_(),
    "zero_": lambda run, xs, n: xs[0].zero_(),
    "copy_": lambda run, xs, n: xs[0].copy_(_apart(*xs)),
    "fill_": lambda run, xs, n: xs[0].fill_(n[0]),
    "set_item": _set_item,
    "detach_": lambda run, xs, n: xs[0].detach_(),
    "requires_grad_": lambda run, xs, n: xs[0].requires_grad_(n[0]),
    "retain_grad": lambda run, xs, n: (xs[0].grad_fn, xs[0].retain_grad())[1],
    "hook": lambda run, xs, n: _hook(run, xs[0], n),
    "node_hooks": lambda run, xs, n: _node_hooks(run, xs[0], n[0]),
    "post_accumulate": lambda run, xs, n: _post_accumulate(run, xs[0], n[0]),
}
_TWO = {"add", "sub", "mul", "mm", "add_", "copy_", "set_item"}
_MANY = {"stack", "cat"}
_NUMBERS: dict[str, Callable[[random.Random], tuple[Any, ...]]] = {
    "scale": lambda r: (r.choice([2.0, -0.5]),),
    "mul_": lambda r: (r.choice([2.0, -0.5]),),
    "fill_": lambda r: (1.5,),
    "sum_dim": lambda r: (r.randrange(2),),
    "select": lambda r: (r.randrange(2),),
    "slice": lambda r: (r.randrange(2),),
    "narrow": lambda r: (r.randrange(2),),
    "unsqueeze": lambda r: (r.randrange(3),),
    "as_strided": lambda r: (r.randrange(2),),
    "chunk": lambda r: (r.randrange(2),),
    "unbind": lambda r: (r.randrange(2),),
    "split": lambda r: (r.randrange(2),),
    "set_item": lambda r: (r.choice([0, slice(None), (slice(None), slice(1, None))]),),
    "requires_grad_": lambda r: (r.random() < 0.7,),
    "hook": lambda r: (r.randrange(100), r.choice([None, 2.0])),
    "node_hooks": lambda r: (r.randrange(100),),
    "post_accumulate": lambda r: (r.randrange(100),),
}


def make_program(rng: random.Random) -> tuple[list[tuple[bool, float]], list[Step]]:
    """Leaves (whether they require grad, and their first number), and steps."""
    leaves = [(rng.random() < 0.75, rng.uniform(-1, 1)) for _ in range(rng.randint(1, 4))]
    steps = []
    for count in range(len(leaves), len(leaves) + rng.randint(2, 14)):
        name = rng.choice(list(ACTIONS))
        arity = 2 if name in _TWO else rng.randint(1, 3) if name in _MANY else 1
        values = tuple([rng.randrange(count) for _ in range(arity)])
        numbers = _NUMBERS[name](rng) if name in _NUMBERS else ()
        steps.append(Step(name, values, numbers, rng.random() < 0.12))
    return leaves, steps


def run_program(m: Any, program: tuple[list[tuple[bool, float]], list[Step]]) -> Run:
    """One side's run: every step adds a value, its first argument where it answers none."""
    leaves, steps = program
    run = Run(m)
    for wants, start in leaves:
        leaf = (m.arange(6, dtype=m.float64) * 0.25 + start).reshape(2, 3).clone()
        run.values.append(leaf.requires_grad_() if wants else leaf)
    for step in steps:
        chosen = [run.values[place] for place in step.values]
        answer = None
        with m.no_grad() if step.without_grad else nullcontext():
            try:
                answer = ACTIONS[step.name](run, chosen, step.numbers)
            except (RuntimeError, IndexError, ValueError, TypeError) as error:
                run.errors.append(_kind(error))
            else:
                run.errors.append("")
        run.values.append(chosen[0] if answer is None else answer)
    return run


def backward(run: Run, place: int, keep: bool) -> None:
    """Run backward from the sum of one value, twice, noting what happens."""
    value = run.values[place]
    try:
        root = value.sum()
        for node in graphs.nodes([root]):
            label = f"{node.name().rpartition('::')[2]}"
            node.register_prehook(lambda grads, label=label: run.note(f"runs {label}"))
        root.backward(retain_graph=keep)
        run.note("ran")
        root.backward()
        run.note("ran again")
    except (RuntimeError, ValueError) as error:
        run.note(_kind(error))


def _kind(error: Exception) -> str:
    text = str(error)
    kind = next((kind for kind in KINDS if kind in text), "")
    return f"{type(error).__name__}: {kind}"


_OBSERVED: dict[str, Callable[[Any], Any]] = {
    "shape": lambda value: tuple(value.shape),
    "stride": lambda value: tuple(value.stride()),
    "version": lambda value: value._version,
    "requires_grad": lambda value: value.requires_grad,
    "is_leaf": lambda value: value.is_leaf,
    "is a view": lambda value: value._base is not None,
    "numbers": Numbers,
}  # fmt: skip


def _state(value: Any) -> dict[str, Any]:
    """What can be observed of a value; an observation that is refused is its error's kind."""
    state = {}
    for name, look in _OBSERVED.items():
        try:
            state[name] = look(value)
        except RuntimeError as error:
            state[name] = _kind(error)
    return state


def difference(program: Any, place: int, keep: bool) -> str:
    """Where the two sides' runs differ first; "" where nowhere."""
    theirs, ours = run_program(torch, program), run_program(lab, program)
    for number, (a, b) in enumerate(zip(theirs.errors, ours.errors, strict=True)):
        if a != b:
            return f"step {number}: torch {a or 'answers'}, labkit {b or 'answers'}"
    for number, (x, y) in enumerate(zip(theirs.values, ours.values, strict=True)):
        seen, mine = _state(x), _state(y)
        if seen != mine:
            name = next(name for name in seen if seen[name] != mine[name])
            return f"v{number}, {name}: torch {seen[name]}, labkit {mine[name]}"
    leaves = range(len(program[0]))
    if "Error" not in str(_state(theirs.values[place])["is_leaf"]):
        graph = [
            graphs.graph([run.values[place]], [run.values[i] for i in leaves])
            for run in (theirs, ours)
        ]
        found = graphs.difference(*graph)
        if found:
            return f"graph of v{place}: {found}"
    for run in (theirs, ours):
        backward(run, place, keep)
    for number, (event, other) in enumerate(zip(theirs.events, ours.events, strict=False)):
        if event != other:
            said = [f"{what} {numbers}" for what, numbers in (event, other)]
            return f"event {number}: torch {said[0]}, labkit {said[1]}"
    if len(theirs.events) != len(ours.events):
        return f"torch has {len(theirs.events)} events, labkit {len(ours.events)}"
    for number, (x, y) in enumerate(zip(theirs.values, ours.values, strict=True)):
        wanted, computed = _gradient(x), _gradient(y)
        if wanted != computed:
            return f"v{number}.grad: torch {wanted}, labkit {computed}"
    return ""


def _gradient(value: Any) -> Numbers | str:
    try:
        return Numbers(value.grad if value.is_leaf or value.retains_grad else None)
    except RuntimeError as error:
        return _kind(error)


def compare(seed: int, size: Size) -> Iterator[Comparison]:
    """Programs made from the seed."""
    tally = Tally("programs with views, writes, hooks and modes")
    for number in range(PROGRAMS[size]):
        rng = random.Random(f"autograd program {seed} {number}")
        program = make_program(rng)
        place = rng.randrange(len(program[0]), len(program[0]) + len(program[1]))
        found = difference(program, place, rng.random() < 0.5)
        shown = "\n".join(f"    v{len(program[0]) + i} = {s}" for i, s in enumerate(program[1]))
        leaves = f"  program {seed}:{number}, leaves {program[0]}"
        tally.note(found and f"{leaves}\n{shown}\n  {found}")
    yield tally.result()
