"""The order in which nodes run, and how deep a graph may be."""

import functools
import multiprocessing
import random
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

import labkit as lab
import labkit.autograd as autograd
from labkit.autograd.engine import ready_queue
from labkit.autograd.engine.graph_task import compute_dependencies
from labkit.autograd.node import nodes_from
from tests.autograd.both import assert_same


def _nodes(roots):
    """Every node, numbered alike on both sides."""
    seen, stack = [], list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.append(node)
            stack.extend(each for each, _ in reversed(node.next_functions) if each is not None)
    return seen


def _run(side, seed):
    """(node number, name) as they ran, and the gradients of the leaves, for one random DAG."""
    draw = random.Random(seed)
    ones = side.ones(2) if side is torch else side.tensor([1.0, 1.0])
    pool = [
        ones.clone().requires_grad_(i == 0 or draw.random() < 0.8)
        for i in range(draw.randint(1, 7))
    ]
    leaves = list(pool)
    for _ in range(draw.choice([3, 8, 20, 60])):
        a, b, kind = draw.choice(pool[-8:]), draw.choice(pool), draw.randrange(6)
        pool.append(
            [lambda a=a, b=b: a + b, lambda a=a, b=b: a * b, lambda a=a, b=b: -a,
             lambda a=a, b=b: a - b, lambda a=a, b=b: a.view(2), lambda a=a, b=b: a.clone()][kind]()
        )  # fmt: skip
    roots = [t for t in pool[-draw.randint(1, 4) :] if t.grad_fn is not None]
    order = []
    for number, node in enumerate(_nodes([t.grad_fn for t in roots])):
        name = node.name()
        node.register_prehook(lambda _, number=number, name=name: order.append((number, name)))
    backward = torch.autograd.backward if side is torch else autograd.backward
    if roots:
        backward(roots, [ones] * len(roots))
    return order, [None if t.grad is None else t.grad.tolist() for t in leaves]


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_random_graphs_run_in_the_order_of_pytorch(seed):
    for each in range(seed, seed + 20):
        assert _run(lab, each) == _run(torch, each), each


def test_many_equal_leaves_come_out_as_libstdcxx_gives_them():
    """All accumulators have one priority: only the heap's own moves decide."""

    def order(side):
        leaves = [
            (side.ones(1) if side is torch else side.tensor([1.0])).requires_grad_()
            for _ in range(23)
        ]
        total = leaves[0] * leaves[1]
        for leaf in leaves[2:]:
            total = total + leaf * leaf
        ran = []
        for i, leaf in enumerate(leaves):
            leaf.register_hook(lambda _, i=i: ran.append(i))
        total.sum().backward()
        return ran

    assert order(lab) == order(torch)


def test_a_heap_of_distinct_numbers_is_sorted():
    draw = random.Random(3)
    numbers = draw.sample(range(1000), 200)
    heap = []
    for number in numbers:
        ready_queue.push(heap, (number, None, None))
    assert [ready_queue.pop(heap)[0] for _ in numbers] == sorted(numbers, reverse=True)
    assert heap == []


def test_a_graph_deeper_than_the_recursion_limit_runs_and_is_freed():
    before = sys.getrecursionlimit()
    x = lab.tensor([1.0]).requires_grad_()
    one = lab.tensor([1.0])
    y = x
    for _ in range(30_000):
        y = y * one
    sys.setrecursionlimit(300)
    try:
        y.backward()
        assert x.grad.tolist() == [1.0]
        del y
    finally:
        sys.setrecursionlimit(before)


def test_only_edges_that_can_be_reached_are_counted():
    x = lab.tensor([1.0]).requires_grad_()
    y = x * x
    z = y + x
    w = y * 3  # not on the way from z
    counts = compute_dependencies(z.grad_fn)
    (multiply, _), (leaf, _) = z.grad_fn.next_functions
    assert counts == {multiply: 1, leaf: 3}
    assert w.grad_fn not in set(nodes_from(z.grad_fn))


def test_a_node_runs_once_all_its_gradients_are_there():
    x = lab.tensor([2.0]).requires_grad_()
    y = x * x
    total = y
    for _ in range(5):
        total = total + y
    calls = []
    y.grad_fn.register_hook(lambda _, grads: calls.append(grads[0].tolist()))
    total.backward()
    assert calls == [[6.0]]
    assert x.grad.tolist() == [24.0]


def test_an_error_in_backward_leaves_nothing_behind():
    x = lab.tensor([1.0]).requires_grad_()
    y = x * 2

    def fail(_):
        raise ZeroDivisionError("from the hook")

    handle = y.register_hook(fail)
    z = (y * 3 + y).sum()
    with pytest.raises(ZeroDivisionError, match="from the hook"):
        z.backward(retain_graph=True)
    handle.remove()
    z.backward()
    assert x.grad.tolist() == [8.0]
    assert autograd.is_grad_enabled()


def _nested(m, depth):
    """A Function whose backward runs another backward, and so on, `depth` times."""

    class Nest(m.Function):
        @staticmethod
        def forward(ctx, x, left):
            ctx.left = left
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            if ctx.left:
                with m.enable_grad():
                    inner = m.tensor([1.0], True)
                    Nest.apply(inner, ctx.left - 1).sum().backward()
                return inner.grad * 2, None
            return grad, None

    x = m.tensor([1.0], True)
    Nest.apply(x, depth).sum().backward()
    return x.grad


def in_a_process(body):
    """The test starts threads of PyTorch's engine: after that, no fork of its process may
    differentiate, which exercises of the course do."""

    @functools.wraps(body)
    def test():
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as process:
            process.submit(_body_of, body.__name__).result()

    return test


def _body_of(name):
    globals()[name].__wrapped__()


@in_a_process
def test_backward_calls_inside_one_another_need_no_recursion():
    def program(m, log):
        log(_nested(m, 300) == 2.0**300)

    assert_same(program)


@in_a_process
def test_a_thread_that_takes_over_is_in_the_same_state():
    def program(m, log):
        class Deep(m.Function):
            @staticmethod
            def forward(ctx, x, left):
                ctx.left = left
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                log(m.is_grad_enabled()) if not ctx.left % 25 else None
                if not ctx.left:
                    raise ValueError("from the innermost")
                with m.enable_grad():
                    inner = Deep.apply(m.tensor([1.0], True), ctx.left - 1).sum()
                inner.backward(create_graph=ctx.left % 2 == 0)
                return grad, None

        Deep.apply(m.tensor([1.0], True), 60).sum().backward()

    assert_same(program)
