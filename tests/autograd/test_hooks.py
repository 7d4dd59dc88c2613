"""Five kinds of hooks, in PyTorch's order and with its words."""

import labkit as lab
from labkit.autograd.engine.engine import ENGINE
from labkit.autograd.engine.graph_task import GraphTask
from tests.autograd.both import assert_same


def test_hooks_fire_in_order():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        y = x * 2
        z = y * 3
        y.register_hook(lambda g: log("t", g))
        y.grad_fn.register_prehook(lambda g: log("pre", g[0]))
        y.grad_fn.register_hook(lambda a, b: log("post", a[0], b[0]))
        x.register_hook(lambda g: log("leaf", g))
        x.register_post_accumulate_grad_hook(lambda p: log("acc", p.grad))
        y.retain_grad()
        y.register_hook(lambda g: g * 2)
        h = y.register_hook(lambda g: log("removed"))
        h.remove()
        z.sum().backward()
        log(x.grad, y.grad)

    assert_same(program)


def test_what_a_hook_may_return():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        for h in (lambda g: 3, lambda g: m.tensor([1.0, 1.0, 1.0, 1.0])):
            y = x * 2
            y.register_hook(h)
            try:
                y.sum().backward()
            except Exception as e:
                log(type(e).__name__, str(e))
        for h in (
            lambda a, b: 3,
            lambda a, b: (None,),
            lambda a, b: (None, None),
            lambda a, b: (m.tensor([1.0, 1.0, 1.0, 1.0]), None),
        ):
            y = x * 2
            y.grad_fn.register_hook(h)
            try:
                y.sum().backward()
            except Exception as e:
                log(type(e).__name__, str(e))
        for h in (
            lambda a: 3,
            lambda a: (None, None),
            lambda a: (None,),
            lambda a: (m.tensor([1.0, 1.0, 1.0, 1.0]),),
        ):
            y = x * 2
            y.grad_fn.register_prehook(h)
            try:
                y.sum().backward()
            except Exception as e:
                log(type(e).__name__, str(e))
        for f in (
            lambda: m.tensor([1.0]).register_hook(print),
            lambda: m.tensor([1.0]).retain_grad(),
            lambda: (x * 2).register_post_accumulate_grad_hook(print),
            lambda: m.tensor([1.0]).register_post_accumulate_grad_hook(print),
        ):
            try:
                f()
            except Exception as e:
                log(type(e).__name__, str(e))

    assert_same(program)


def test_hooks_stay_with_the_value_they_were_registered_on():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        y = x * 2
        y.retain_grad()
        y.register_hook(lambda g: log("old", g))
        y.mul_(3)
        y.register_hook(lambda g: log("new", g))
        y.sum().backward()
        log(y.grad, x.grad)
        a = x * 2
        v = a[0]
        v.retain_grad()
        v.register_hook(lambda g: log("v", g))
        v.mul_(5)
        v.register_hook(lambda g: log("v2", g))
        a.register_hook(lambda g: log("a", g))
        (a * 2).sum().backward()
        log(v.grad)

    assert_same(program)


def test_a_gradient_that_a_hook_has_detached_and_kept_is_not_added_to():
    def program(m, log):
        kept = []
        x = m.tensor([1.0, 2.0], True)
        h = x * 1
        for y in (a := h * 3, b := h * 2):
            y.grad_fn.register_hook(lambda given, _: kept.append(given[0].detach()))
        (a + b).sum().backward()
        log(kept, x.grad)

    assert_same(program)


def test_a_hook_cannot_make_a_gradient_of_none():
    def program(m, log):
        y = m.tensor([1.0, 2.0], True) * m.tensor([1.0, 2.0])
        y.grad_fn.register_hook(lambda given, _: (given[0], given[0]))
        try:
            y.sum().backward()
        except RuntimeError as error:
            log(str(error))

    assert_same(program)


def test_every_hook_of_a_backward_call_fires_in_one_place(monkeypatch):
    fired = []

    class Noting(GraphTask):
        def call_hook(self, node, kind, hook, *values, slot=0):
            fired.append((node.name(), kind))
            return super().call_hook(node, kind, hook, *values, slot=slot)

    monkeypatch.setattr(ENGINE, "new_task", Noting)
    x = lab.tensor([1.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    y.grad_fn.register_prehook(lambda grads: None)
    y.grad_fn.register_hook(lambda results, grads: None)
    for tensor in (x, y):
        tensor.register_hook(lambda grad: None)
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    y.backward()
    leaf = "torch::autograd::AccumulateGrad"
    kinds = ("tensor", "retain_grad", "pre", "post")
    assert fired == [
        *(("MulBackward0", kind) for kind in kinds), (leaf, "tensor"), (leaf, "post-accumulate")
    ]  # fmt: skip
