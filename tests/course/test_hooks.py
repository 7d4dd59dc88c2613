"""Right and wrong answers to the exercises on hooks: what they return, and when they fire."""

import contextlib

import torch

from labkit.course.checking.stages import stage_exercises
from labkit.course.exercise import Case
from labkit.course.exercises.hooks import every_hook as every_hook_exercise
from labkit.course.exercises.hooks import hook_log as hook_log_exercise
from tests.course.answers import Answers, first_hint

answers = Answers("hooks")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"

# --- clip


@answers.right("clip")
def clip(limit):
    return lambda grad: grad.clamp(-limit, limit)


@answers.wrong("clip", "writes into the gradient")
def clip_in_place(limit):
    return lambda grad: grad.clamp_(-limit, limit)


@answers.wrong("clip", "cuts off at the top alone")
def clip_the_top(limit):
    return lambda grad: grad.clamp(max=limit)


@answers.wrong("clip", "makes the whole gradient smaller")
def clip_by_the_largest(limit):
    return lambda grad: grad * min(1.0, limit / max(1e-9, float(grad.abs().max())))


@answers.wrong("clip", "returns nothing")
def clip_without_return(limit):
    return lambda grad: None


# --- firing_order

PLACES = ["tensor", "pre", "post", "leaf", "stored"]


def sorted_by(places):
    return lambda hooks: [name for name, _ in sorted(hooks, key=lambda h: places.index(h[1]))]


answers.right("firing_order")(sorted_by(PLACES))
answers.wrong("firing_order", "lets the post-accumulate hook come before the leaf's")(
    sorted_by(["tensor", "pre", "post", "stored", "leaf"])
)
answers.wrong("firing_order", "lets the node's hook come before the tensor's")(
    sorted_by(["pre", "tensor", "post", "leaf", "stored"])
)


@answers.wrong("firing_order", "keeps the order of registration")
def as_registered(hooks):
    return [name for name, _ in hooks]


@answers.wrong("firing_order", "turns hooks of one place round")
def turned_round(hooks):
    return sorted_by(PLACES)(hooks[::-1])


@answers.wrong("firing_order", "sorts hooks of one place by name")
def by_name(hooks):
    return [name for _, name in sorted((PLACES.index(kind), name) for name, kind in hooks)]


def test_an_order_by_name_is_told_that_the_input_has_an_order():
    assert "order of the input" in first_hint(answers.exercises["firing_order"], by_name)


# --- through


@answers.right("through")
def through(hooks, g):
    for hook in list(hooks):
        new = hook(g)
        g = g if new is None else new
    return g


@answers.wrong("through", "takes a gradient of zero for None")
def through_or(hooks, g):
    for hook in list(hooks):
        g = hook(g) or g
    return g


@answers.wrong("through", "gives every hook the first gradient")
def through_first(hooks, g):
    left = g
    for hook in list(hooks):
        new = hook(g)
        left = left if new is None else new
    return left


@answers.wrong("through", "skips the hook behind one that goes")
def through_the_list(hooks, g):
    for hook in hooks:
        new = hook(g)
        g = g if new is None else new
    return g


@answers.wrong("through", "fails where a hook returns None")
def through_none(hooks, g):
    for hook in list(hooks):
        g = hook(g) + 0
    return g


# --- hook_log and every_hook


class Stopped(Exception):
    """A hook raised."""


class Run:
    """A program of hooks, played; subclasses play it wrong."""

    def __init__(self, program):
        self.log, self.grad, self.calls, self.leaves, self.hooks = [], {}, {}, [], {}
        for step in program:
            if step[0] == "leaf":
                self.leaves.append(step[1])
                self.grad[step[1]] = None
            elif step[0] == "call":
                self.calls[step[1]] = step[2]
            elif step[0] == "hook":
                self.hooks[step[1]] = step[2:]
            elif step[0] == "remove":
                self.remove(step[1])
            else:
                self.backward(step[1])

    def remove(self, name):
        self.hooks.pop(name, None)

    def at(self, kinds, where):
        return [
            (name, *rest)
            for name, rest in self.hooks.items()
            if rest[0] in kinds and (where == rest[1] or (rest[0] == "multi" and where in rest[1]))
        ]

    def fire(self, name, action, value):
        self.log.append((name, value))
        if action == "once":
            self.remove(name)
        if action == "raise":
            self.log.append(("error", name))
            raise Stopped

    def tensor_hooks(self, where, grad):
        for name, kind, tensors, action in self.at(("tensor", "multi"), where):
            if kind == "multi":
                self.note(name, where, grad)
                seen = self.seen[name]
                if len(seen) == self.expected(tensors):
                    self.fire(name, action, [seen.get(one) for one in tensors])
                continue
            self.fire(name, action, grad)
            grad = grad * action if isinstance(action, int) else grad
        return grad

    def note(self, name, where, grad):
        self.seen.setdefault(name, {})[where] = grad

    def expected(self, tensors):
        return sum(one in self.reached for one in tensors)

    def begin(self):
        self.seen = {}

    def backward(self, root):
        self.reached, stack = set(), [root]
        self.begin()
        while stack:
            name = stack.pop()
            if name not in self.reached:
                self.reached.add(name)
                stack += self.calls.get(name, {})
        arrived = {root: 1.0}
        with contextlib.suppress(Stopped):
            for name in [one for one in reversed(self.calls) if one in self.reached]:
                self.call(name, arrived)

    def ready_leaves(self, name, before):
        done = list(self.calls)
        waiting = [c for c in done[: done.index(name)] if c in self.reached]
        for leaf in self.calls[name]:
            if leaf in self.leaves and not any(leaf in self.calls[c] for c in waiting):
                yield leaf

    def call(self, name, arrived):
        grad = self.tensor_hooks(name, arrived[name])
        grad = self.pre_hooks(name, grad)
        self.log.append(("run", name, grad))
        grads = [factor * grad for factor in self.calls[name].values()]
        for hook, _, _, action in self.at(("post",), name):
            self.fire(hook, action, list(grads))
            grads = [g * action for g in grads] if isinstance(action, int) else grads
        for target, one in zip(self.calls[name], grads, strict=True):
            arrived[target] = arrived.get(target, 0.0) + one
        for leaf in self.ready_leaves(name, arrived):
            self.accumulate(leaf, arrived[leaf])

    def pre_hooks(self, name, grad):
        for hook, _, _, action in self.at(("pre",), name):
            self.fire(hook, action, grad)
            grad = grad * action if isinstance(action, int) else grad
        return grad

    def accumulate(self, leaf, grad):
        self.add(leaf, self.tensor_hooks(leaf, grad))
        self.after(leaf)

    def add(self, leaf, grad):
        self.grad[leaf] = grad if self.grad[leaf] is None else self.grad[leaf] + grad

    def after(self, leaf):
        for hook, _, _, action in self.at(("stored",), leaf):
            self.fire(hook, action, self.grad[leaf])
            if action == "clear":
                self.grad[leaf] = None


@answers.right("hook_log")
def hook_log(program):
    return Run(program).log


@answers.wrong("hook_log", "leaf hook after accumulation")
def leaf_hook_late(program):
    class Late(Run):
        def accumulate(self, leaf, grad):
            self.add(leaf, grad)
            self.after(leaf)
            self.tensor_hooks(leaf, grad)

    return Late(program).log


@answers.wrong("hook_log", "hook sees the summed gradient twice")
def sees_the_sum_twice(program):
    class Twice(Run):
        def call(self, name, arrived):
            if self.at(("tensor",), name) and sum(name in c for c in self.calls.values()) > 1:
                arrived[name] *= 2
            super().call(name, arrived)

    return Twice(program).log


@answers.wrong("hook_log", "hook sees the summed gradient twice")
def sees_each_arrival(program):
    class Each(Run):
        def ready_leaves(self, name, before):
            for leaf in self.calls[name]:
                if leaf in self.leaves:
                    yield leaf

    return Each(program).log


@answers.wrong("hook_log", "removed hook still fires")
def never_removes(program):
    class Sticky(Run):
        def remove(self, name):
            pass

    return Sticky(program).log


@answers.wrong("hook_log", "order by registration across kinds")
def one_list(program):
    class Mixed(Run):
        def tensor_hooks(self, where, grad):
            if where in self.leaves:
                return super().tensor_hooks(where, grad)
            for name, _kind, _, action in self.at(("tensor", "pre"), where):
                self.fire(name, action, grad)
                grad = grad * action if isinstance(action, int) else grad
            return grad

        def pre_hooks(self, name, grad):
            return grad

    return Mixed(program).log


@answers.wrong("hook_log", "assumes hooks of one kind run in reverse order of registration")
def backwards(program):
    class Reversed(Run):
        def at(self, kinds, where):
            return super().at(kinds, where)[::-1]

    return Reversed(program).log


@answers.wrong("hook_log", LITERAL)
def literal(program):
    return [("run", "t", 1.0), ("h1", 2.0)]


answers.right("every_hook")(hook_log)


@answers.wrong("every_hook", "goes on after a hook raised")
def goes_on(program):
    class On(Run):
        def fire(self, name, action, value):
            with contextlib.suppress(Stopped):
                super().fire(name, action, value)

    return On(program).log


@answers.wrong("every_hook", "waits for tensors that this backward does not reach")
def waits_for_all(program):
    class All(Run):
        def expected(self, tensors):
            return len(tensors)

    return All(program).log


@answers.wrong("every_hook", "notes a gradient before the hooks in front of it changed it")
def notes_too_early(program):
    class Early(Run):
        def tensor_hooks(self, where, grad):
            self.noted = grad
            return super().tensor_hooks(where, grad)

        def note(self, name, where, grad):
            super().note(name, where, self.noted)

    return Early(program).log


@answers.wrong("every_hook", "keeps what it noted for the next backward")
def keeps_notes(program):
    class Keeps(Run):
        def begin(self):
            self.seen = getattr(self, "seen", {})

    return Keeps(program).log


answers.wrong("every_hook", LITERAL)(literal)

test_answers = answers.tests()


def test_every_stage_asks_what_it_is_named_after():
    asked = {
        (e.name, stage): e.make(3, 1, e.sizes).inputs[0]
        for e in (hook_log_exercise, every_hook_exercise)
        for stage, e in stage_exercises(e)
    }
    hooks = {name: [s for s in steps if s[0] == "hook"] for name, steps in asked.items()}
    assert hooks["hook_log", "no hooks"] == []
    assert {s[2] for s in hooks["hook_log", "tensor"]} == {"tensor"}
    assert {s[2] for s in hooks["hook_log", "node"]} <= {"pre", "post"}
    assert all(isinstance(s[4], int) for s in hooks["hook_log", "returned values"])
    assert {s[2] for s in hooks["hook_log", "stored"]} == {"stored"}
    assert "multi" not in {s[2] for s in hooks["every_hook", "raise"]}


def test_the_gradient_a_hook_writes_into_may_be_somebody_elses():
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    a.register_hook(lambda grad: grad.mul_(10))
    (a + b).backward(torch.ones(2))
    assert b.grad.tolist() == [10.0, 10.0]


def test_the_picture_walks_the_first_backward_with_the_hooks_by_name():
    program = [("leaf", "w0"), ("call", "t0", {"w0": 2}), ("hook", "h1", "pre", "t0", 3)]
    program += [("hook", "h2", "stored", "w0", "watch"), ("backward", "t0"), ("backward", "t0")]
    walk = hook_log_exercise.picture(Case((program,)), None, None)
    texts = [frame["text"] for frame in walk.frames]
    assert texts.index("a hook of t0Backward #0 fires: pre h1") < len(texts) - 3
    assert texts[-2] == "a hook of AccumulateGrad w0 fires: post-accumulate h2"
