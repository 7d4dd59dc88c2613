"""Right and wrong answers to the exercises on hooks, views that are written, and checkpoints."""

import contextlib

import torch

from labkit.course.exercises.hooks_versions_checkpoint import Node, Tensor
from tests.course.answers import Answers

answers = Answers("hooks_versions_checkpoint")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
LITERAL = "returns the literal answer of the example in the statement"
SLOW = (
    "is right on small cases and exceeds the size limit on large ones (quadratic, recursive or "
    "waiting for ever)"
)

# --- hook_log


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
                seen = self.seen.setdefault(name, {})
                seen[where] = grad
                if len(seen) == sum(one in self.reached for one in tensors):
                    self.fire(name, action, [seen.get(one) for one in tensors])
                continue
            self.fire(name, action, grad)
            grad = grad * action if isinstance(action, int) else grad
        return grad

    def backward(self, root):
        self.reached, stack, self.seen = set(), [root], {}
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
        for hook, _, _, action in self.at(("accumulated",), leaf):
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


# --- rebase_history


def scaled(factor, edge):
    return Node("MulBackward0", [edge], lambda grad: [[factor * g for g in grad]])


def picked(name, places, count, edge):
    def backward(grad):
        whole = [0.0] * count
        for place, g in zip(places, grad, strict=True):
            whole[place] += g
        return [whole]

    return Node(name, [edge], backward)


def refuse(tensor, happened):
    name = tensor.view_name.removesuffix("Backward0")
    raise RuntimeError(f"Output {tensor.output_nr} of {name} is a view and {happened} inplace.")


def history(tensor):
    if tensor.base is not None and tensor.made_at != tensor.version[0]:
        if tensor.several:
            refuse(tensor, "its base or another view of its base has been modified")
        count = len(tensor.base.places)
        tensor.node = picked("AsStridedBackward0", tensor.places, count, history(tensor.base))
        tensor.made_at, tensor.view_name, tensor.output_nr = (
            tensor.version[0], "AsStridedBackward0", 0,
        )  # fmt: skip
    return tensor.node


def view(tensor, places, name, output_nr):
    node = picked(name, list(places), len(tensor.places), history(tensor))
    several = tensor.several or name == "UnbindBackward0"
    covered = tuple(tensor.places[place] for place in places)
    base = tensor if tensor.base is None else tensor.base
    return Tensor(
        tensor.memory, covered, node, tensor.version, base, name, output_nr, several
    )  # fmt: skip


def copied(places, factor, edge):
    function = scaled(factor, edge)

    def backward(grad):
        result = list(grad)
        (part,) = function.backward([grad[place] for place in places])
        for place, g in zip(places, part, strict=True):
            result[place] = g
        return [result]

    return Node("CopySlices", [edge], backward)


def write(tensor, factor):
    for place in tensor.places:
        tensor.memory[place] *= factor
    tensor.version[0] += 1


def mul_(tensor, factor):
    if tensor.several:
        refuse(tensor, "is being modified")
    write(tensor, factor)
    if tensor.base is None:
        tensor.node = scaled(factor, tensor.node)
        return
    tensor.base.node = copied(tensor.places, factor, tensor.base.node)
    history(tensor)


answers.right("rebase_history")((view, mul_, history))


def mul_on_the_view_only(tensor, factor):
    if tensor.several:
        refuse(tensor, "is being modified")
    before = history(tensor)
    write(tensor, factor)
    tensor.node, tensor.made_at = scaled(factor, before), tensor.version[0]


answers.wrong("rebase_history", "rebases the view only")((view, mul_on_the_view_only, history))


def stale(tensor):
    return tensor.node


answers.wrong("rebase_history", "siblings keep stale nodes")((view, mul_, stale))


def view_with_a_version(tensor, *rest):
    made = view(tensor, *rest)
    made.version = list(made.version)
    return made


answers.wrong("rebase_history", "version per tensor")((view_with_a_version, mul_, history))


def view_of_unbind(tensor, *rest):
    made = view(tensor, *rest)
    made.several = False
    return made


answers.wrong("rebase_history", "allows unbind outputs")((view_of_unbind, mul_, history))


def view_forgets(tensor, places, name, output_nr):
    made = view(tensor, places, name, output_nr)
    made.several = name == "UnbindBackward0"
    return made


answers.wrong("rebase_history", "chain of views loses the restriction")(
    (view_forgets, mul_, history)
)


@lambda make: answers.wrong("rebase_history", FIRST, make=True)(make)
def remembers_a_view():
    first = []

    def remembered(tensor, places, name, output_nr):
        first.append(view(tensor, places, name, output_nr))
        return first[0]

    return remembered, mul_, history


def mul_to_nan(tensor, factor):
    mul_(tensor, factor)
    for place in tensor.places:
        tensor.memory[place] = float("nan")


NAN = "returns NaN or an uninitialised buffer where a value is expected"
answers.wrong("rebase_history", NAN)((view, mul_to_nan, history))


def view_clears(tensor, places, name, output_nr):
    made = view(tensor, places, name, output_nr)
    places.clear()
    return made


CHANGES = "returns the right value but changes one of its inputs"
answers.wrong("rebase_history", CHANGES)((view_clears, mul_, history))

# --- checkpoint


class Enough(Exception):
    """Everything has been computed again."""


def made(
    restore=True, keep=False, early=True, once=True, put_back=True, grad_mode=None, slow=False
):  # fmt: skip
    """A checkpoint, with one thing wrong on request."""

    def checkpoint(function, *args, **kwargs):
        state = torch.get_rng_state()
        again, count = {}, 0
        kept = []

        def pack(tensor):
            nonlocal count
            count += 1
            if keep:
                kept.append(tensor.detach())
            return count - 1

        def recompute():
            number = 0

            def pack_again(tensor):
                nonlocal number
                if slow:
                    sum(1 for _ in range(number * 400))
                again[number] = tensor.detach()
                number += 1
                if early and number == count:
                    raise Enough

            now = torch.get_rng_state()
            if restore:
                torch.set_rng_state(state)
            try:
                hooks = torch.autograd.graph.saved_tensors_hooks(pack_again, lambda _: None)
                with hooks, torch.enable_grad():
                    function(*args, **kwargs)
            except Enough:
                pass
            finally:
                if put_back:
                    torch.set_rng_state(now)

        def unpack(number):
            if number not in again or not once:
                recompute()
            return again.pop(number)

        mode = contextlib.nullcontext() if grad_mode is None else grad_mode()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack), mode:
            return function(*args, **kwargs)

    return checkpoint


answers.right("checkpoint")(made())
answers.wrong("checkpoint", "reruns without the random state")(made(restore=False))
answers.wrong("checkpoint", "reruns without the random state")(made(put_back=False))
answers.wrong("checkpoint", "runs the whole function again for each saved tensor")(made(once=False))
answers.wrong("checkpoint", "runs the whole function again for each saved tensor")(
    made(early=False)
)
answers.wrong("checkpoint", "keeps the first activations")(made(keep=True))
answers.wrong("checkpoint", "breaks under no_grad")(made(grad_mode=torch.enable_grad))
answers.wrong("checkpoint", SLOW)(made(slow=True))


@answers.wrong("checkpoint", "keeps the first activations")
def calls_it(function, *args, **kwargs):
    return function(*args, **kwargs)


@answers.wrong("checkpoint", "gradients of closures lost")
def gradients_of_arguments_only(function, *args, **kwargs):
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.state = torch.get_rng_state()
            return function(x, *args[1:], **kwargs)

        @staticmethod
        def backward(ctx, grad):
            now = torch.get_rng_state()
            torch.set_rng_state(ctx.state)
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                result = function(x, *args[1:], **kwargs)
            torch.set_rng_state(now)
            return torch.autograd.grad(result, x, grad)[0]

    return Again.apply(*args[:1]) if args else function(**kwargs)


@lambda make: answers.wrong("checkpoint", FIRST, make=True)(make)
def remembers_the_first():
    kept = []

    def checkpoint(function, *args, **kwargs):
        kept.append(function(*args, **kwargs))
        return kept[0]

    return checkpoint


@answers.wrong("checkpoint", "gradients of closures lost")
def pytorchs_own(function, *args, **kwargs):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(function, *args, use_reentrant=False, **kwargs)


test_answers = answers.tests()
