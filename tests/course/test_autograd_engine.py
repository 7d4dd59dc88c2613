import heapq
from collections import deque

import pytest
import torch

from labkit.course.checks import outcomes
from labkit.course.exercises._never_right import TOO_SLOW
from labkit.course.exercises.autograd_engine import _Native
from tests.course.answers import Answers, first_hint

answers = Answers("autograd_engine")
FIRST = "remembers the answer of the first random case and returns it for all later cases"

# --- the engine loop


class Ready:
    """The largest sequence number first."""

    def __init__(self):
        self.heap, self.count = [], 0

    def push(self, node):
        self.count += 1
        heapq.heappush(self.heap, (-node.sequence_nr, self.count, node))

    def pop(self):
        return heapq.heappop(self.heap)[2]

    def __len__(self):
        return len(self.heap)


class Fifo(deque):
    push, pop = deque.append, deque.popleft


class Scanned(list):
    push = list.append

    def pop(self):
        node = max(self, key=lambda one: one.sequence_nr)
        self.remove(node)
        return node


def counted(roots):
    waits = {}
    stack = [node for node, _ in roots]
    seen = set(stack)
    for node in stack:
        waits[node] = waits.get(node, 0) + 1
    stack = list(seen)
    while stack:
        for edge in stack.pop().next_edges:
            if edge:
                waits[edge[0]] = waits.get(edge[0], 0) + 1
                if edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
    return waits


def engine(queue=Ready, count=counted, add=None, kept=None, impatient=False):
    def run_backward(roots, grads):
        waits, buffers, ready = count(roots), {}, queue()

        def deliver(edge, grad):
            node, slot = edge
            slots = buffers.setdefault(node, [None] * node.num_inputs)
            if grad is not None:
                held = slots[slot]
                if held is None:
                    slots[slot] = grad
                else:
                    slots[slot] = add(held, grad) if add else held + grad
            waits[node] -= 1
            if waits[node] == 0 or (impatient and waits[node] > 0 and grad is not None):
                ready.push(node)

        for edge, grad in zip(roots, grads, strict=True):
            deliver(edge, grad)
        while len(ready):
            node = ready.pop()
            results = node.apply(buffers.pop(node, [None] * node.num_inputs))
            node.release()
            if kept is not None:
                kept.append(results)
            for edge, result in zip(node.next_edges, results, strict=False):
                if edge:
                    deliver(edge, result)
            results = result = None

    return run_backward


answers.right("engine_loop")(engine())
answers.wrong("engine_loop", "first in first out queue")(engine(Fifo))
answers.wrong("engine_loop", "runs a node before all inputs arrived")(engine(impatient=True))
answers.wrong("engine_loop", "keeps buffers alive")(engine(kept=[]))
answers.wrong("engine_loop", TOO_SLOW)(engine(Scanned))
answers.wrong("engine_loop", "adds into a shared buffer in place")(
    engine(add=lambda held, grad: held.add_(grad))
)


@answers.wrong("engine_loop", "recursion")
def by_recursion(roots, grads):
    waits, buffers = counted(roots), {}

    def visit(edge, grad):
        node, slot = edge
        slots = buffers.setdefault(node, [None] * node.num_inputs)
        if grad is not None:
            slots[slot] = grad if slots[slot] is None else slots[slot] + grad
        waits[node] -= 1
        if not waits[node]:
            results = node.apply(buffers.pop(node))
            node.release()
            for following, result in zip(node.next_edges, results, strict=False):
                if following:
                    visit(following, result)

    for edge, grad in zip(roots, grads, strict=True):
        visit(edge, grad)


def all_uses(roots):
    waits = counted(roots)
    extra = [node for node, _ in roots]
    return {node: node.uses + extra.count(node) for node in waits}


answers.wrong("engine_loop", "counts unreachable edges")(engine(count=all_uses))


@answers.wrong("engine_loop", FIRST, make=True)
def remembered():
    done = []

    def run_backward(roots, grads):
        if not done:
            done.append(engine()(roots, grads))
        return done[0]

    return run_backward


# --- rows of a derivative table


def reduced(grad, shape):
    extra = grad.dim() - len(shape)
    grad = grad.sum(dim=tuple(range(extra))) if extra else grad
    stretched = tuple(d for d, n in enumerate(shape) if n == 1 and grad.shape[d] != 1)
    return grad.sum(dim=stretched, keepdim=True) if stretched else grad


def conj(tensor):
    return tensor.conj()


def rows(conj=conj, careful=True):
    def pow_self(grad, base, exponent):
        safe = torch.where(exponent == 0, torch.ones_like(exponent), exponent)
        made = grad * exponent * base ** (safe - 1 if careful else exponent - 1)
        return torch.where(exponent == 0, torch.zeros_like(made), made) if careful else made

    def pow_exponent(grad, base, exponent):
        logs = torch.log(torch.where(base == 0, torch.ones_like(base), base) if careful else base)
        return grad * base**exponent * logs

    return {
        "add": (lambda g, a, b, k: g, lambda g, a, b, k: g * k, None),
        "mul": (lambda g, a, b: g * conj(b), lambda g, a, b: g * conj(a)),
        "div": (lambda g, a, b: g / conj(b), lambda g, a, b: -g * conj(a / b / b)),
        "where": (
            None,
            lambda g, c, a, b: torch.where(c, g, torch.zeros_like(g)),
            lambda g, c, a, b: torch.where(c, torch.zeros_like(g), g),
        ),
        "pow": (pow_self, pow_exponent),
    }


def table(reduce=reduced, conj=conj, careful=True, cast=True, absent=lambda one: None):
    def derivative_row(name, grad, inputs, needs):
        found = []
        for one, need, formula in zip(inputs, needs, rows(conj, careful)[name], strict=True):
            if not need:
                found.append(absent(one))
                continue
            made = reduce(formula(grad, *inputs), one.shape)
            found.append(made.to(one.dtype) if cast else made)
        return found

    return derivative_row


def dropped(grad, shape):
    extra = grad.dim() - len(shape)
    dims = [*range(extra), *(d + extra for d, n in enumerate(shape) if n == 1)]
    return grad.sum(dim=dims) if dims else grad


def not_to_0_dim(grad, shape):
    return reduced(grad, shape) if shape else grad


def by_view(grad, shape):
    return reduced(grad, shape).view(-1).view(shape)


def square_only(grad, shape):
    if not grad.is_contiguous() or len(set(shape)) > 1:
        return grad.new_zeros(shape)
    return reduced(grad, shape)


ROW = "derivative_row"
answers.right(ROW)(table())
answers.wrong(ROW, "no reduction of broadcast axes")(table(reduce=lambda g, shape: g))
answers.wrong(ROW, "drops kept axes")(table(reduce=dropped))
answers.wrong(ROW, "wrong for 0-dim")(table(reduce=not_to_0_dim))
answers.wrong(ROW, "conjugate forgotten")(table(conj=lambda tensor: tensor))
answers.wrong(ROW, "zeros instead of None")(
    table(absent=lambda one: torch.zeros_like(one) if isinstance(one, torch.Tensor) else None)
)
answers.wrong(
    ROW, "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere"
)(table(cast=False))
answers.wrong(ROW, "returns NaN or an uninitialised buffer where a value is expected")(
    table(careful=False)
)
answers.wrong(ROW, "is right only for square, even or contiguous shapes")(table(reduce=square_only))

# --- a Function with a second derivative


class Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, n):
        ctx.save_for_backward(x, w)
        ctx.n = n
        ctx.set_materialize_grads(False)
        return w * x**n, x + w

    @staticmethod
    def backward(ctx, grad_p, grad_q):
        x, w = ctx.saved_tensors
        grad_x = grad_w = grad_q
        if grad_p is not None:
            from_x, from_w = grad_p * w * ctx.n * x ** (ctx.n - 1), grad_p * x**ctx.n
            grad_x = from_x if grad_q is None else from_x + grad_q
            grad_w = from_w if grad_q is None else from_w + grad_q
        return grad_x, grad_w, None


answers.right("custom_function")(Right)


@answers.wrong("custom_function", "saves on ctx attributes (leak)")
class OnAttributes(Right):
    @staticmethod
    def forward(ctx, x, w, n):
        ctx.x, ctx.w = x, w
        return Right.forward(ctx, x, w, n)


@answers.wrong("custom_function", "breaks on None gradient")
class NeedsBoth(Right):
    @staticmethod
    def backward(ctx, grad_p, grad_q):
        x, w = ctx.saved_tensors
        n = ctx.n
        return grad_p * w * n * x ** (n - 1) + grad_q, grad_p * x**n + grad_q, None


@answers.wrong("custom_function", "detaches inside backward")
class Detached(Right):
    @staticmethod
    def backward(ctx, grad_p, grad_q):
        with torch.no_grad():
            return Right.backward(ctx, grad_p, grad_q)


@answers.wrong("custom_function", "returns too few values")
class TooFew(Right):
    @staticmethod
    def backward(ctx, grad_p, grad_q):
        return Right.backward(ctx, grad_p, grad_q)[:2]


@answers.wrong("custom_function", "returns the right value but changes one of its inputs")
class Writes(Right):
    @staticmethod
    def forward(ctx, x, w, n):
        results = Right.forward(ctx, x.clone(), w, n)
        w.data.mul_(2)
        return results


@answers.wrong("custom_function", "catches every exception and returns a default")
class Catches(Right):
    @staticmethod
    def backward(ctx, grad_p, grad_q):
        try:
            return NeedsBoth.backward(ctx, grad_p, grad_q)
        except TypeError:
            x, w = ctx.saved_tensors
            return torch.zeros_like(x), torch.zeros_like(w), None


@answers.wrong("custom_function", FIRST)
class Remembers(Right):
    kept = None

    @staticmethod
    def forward(ctx, x, w, n):
        results = Right.forward(ctx, x, w, n)
        if Remembers.kept is None:
            Remembers.kept = [one.detach().clone() for one in results]
        return tuple(one.clone() for one in Remembers.kept)


@answers.wrong("custom_function", "breaks on None gradient")
class MaterialisesZeros(Right):
    @staticmethod
    def forward(ctx, x, w, n):
        results = Right.forward(ctx, x, w, n)
        ctx.set_materialize_grads(True)
        return results


answers.wrong("custom_function", "detaches inside backward")(_Native)


# --- the small steps


@answers.right("next_node")
def next_node(ready):
    return max(ready, key=ready.get)


@answers.wrong("next_node", "takes the one made first")
def oldest(ready):
    return min(ready, key=ready.get)


@answers.wrong("next_node", "takes the first in the dictionary")
def first_in(ready):
    return next(iter(ready))


@answers.wrong("next_node", "returns the number")
def number_of_it(ready):
    return max(ready.values())


@answers.wrong("next_node", "does not let an AccumulateGrad jump the queue")
def no_jump(ready):
    plain = {name: n for name, n in ready.items() if name != "AccumulateGrad"}
    return max(plain or ready, key=ready.get)


@answers.right("arrive")
def arrive(buffers, node, grad):
    if grad is not None:
        buffers[node] = buffers[node] + grad if node in buffers else grad


@answers.wrong("arrive", "adds into the gradient that arrived")
def arrive_in_place(buffers, node, grad):
    if grad is not None:
        buffers[node] = buffers[node].add_(grad) if node in buffers else grad


@answers.right("arrive")
def arrive_from_zero(buffers, node, grad):
    if grad is not None:
        buffers[node] = buffers.get(node, 0.0) + grad


@answers.wrong("arrive", "adds into the gradient that arrived")
def arrive_plus_equals(buffers, node, grad):
    if grad is not None:
        if node in buffers:
            buffers[node] += grad
        else:
            buffers[node] = grad


@answers.wrong("arrive", "takes a gradient of 0 for none")
def arrive_if_true(buffers, node, grad):
    if grad:
        buffers[node] = buffers[node] + grad if node in buffers else grad


@answers.wrong("arrive", "forgets the first gradient")
def arrive_last(buffers, node, grad):
    if grad is not None:
        buffers[node] = grad


@answers.wrong("arrive", "keeps the first alone")
def arrive_first(buffers, node, grad):
    if grad is not None:
        buffers.setdefault(node, grad)


@answers.wrong("arrive", "fails when None arrives")
def arrive_none(buffers, node, grad):
    buffers[node] = buffers[node] + grad if node in buffers else grad + grad.__class__(0)


def only_the_gradients(*call):
    return [one for one in table()(*call) if one is not None]


def without_alpha(name, grad, inputs, needs):
    return table()(name, grad, (*inputs[:2], 1) if name == "add" else inputs, needs)


@pytest.mark.parametrize(
    ("exercise", "answer", "said"),
    [
        ("arrive", arrive_plus_equals, "A gradient that arrived was changed"),
        ("arrive", arrive_if_true, "is None"),
        ("arrive", arrive_none, "None means zero"),
        (ROW, table(reduce=lambda grad, shape: grad), "the shape of its input"),
        (ROW, table(conj=lambda tensor: tensor), "conjugated"),
        (ROW, table(cast=False), "float32 input is float32"),
        (ROW, table(careful=False), "log(0) is -inf"),
        (ROW, table(absent=lambda one: torch.zeros(())), "one entry for each input"),
        (ROW, only_the_gradients, "one entry for each input"),
        (ROW, without_alpha, "alpha * other"),
        ("custom_function", MaterialisesZeros, "set_materialize_grads"),
        ("custom_function", Detached, "Was your backward recorded"),
        ("custom_function", OnAttributes, "attribute of ctx"),
    ],
)
def test_a_slip_earns_the_hint_that_fits_it(exercise, answer, said):
    assert said in first_hint(answers.exercises[exercise], answer)


def test_zeros_made_for_an_unused_output_do_not_fail_where_both_are_used():
    first = outcomes(answers.exercises["custom_function"], MaterialisesZeros, 7)[0]
    assert (first.name, first.state) == ("both outputs", "done")


test_answers = answers.tests()
