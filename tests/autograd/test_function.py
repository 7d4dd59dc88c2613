"""Custom functions."""

import pytest

import labkit as lab
from labkit.autograd import Function
from tests.autograd.both import assert_same


def test_custom_function():
    def program(m, log):
        class F(m.Function):
            @staticmethod
            def forward(ctx, a, k, b):
                ctx.save_for_backward(a, b)
                ctx.k = k
                log(ctx.needs_input_grad)
                return a * b * k

            @staticmethod
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                return g * b * ctx.k, None, g * a * ctx.k

        a = m.tensor([1.0, 2.0], True)
        b = m.tensor([3.0, 4.0], True)
        y = F.apply(a, 2.0, b)
        log(y.grad_fn, y.grad_fn.name())
        y.sum().backward()
        log(a.grad, b.grad)
        (ga,) = m.grad(F.apply(a, 2.0, b).sum(), a, create_graph=True)
        log(ga.grad_fn is not None)
        log(m.grad(ga.sum(), b))
        y = F.apply(a, 2.0, m.tensor([1.0, 1.0]))
        log(y)
        try:
            y.sum().backward()
            y.sum().backward()
        except Exception as e:
            log(type(e).__name__, str(e))
        with m.no_grad():
            log(F.apply(a, 2.0, b).requires_grad)

        class Bad(F):
            @staticmethod
            def backward(ctx, g):
                return g

        try:
            Bad.apply(a, 1.0, b).sum().backward()
        except Exception as e:
            log(type(e).__name__, str(e))

        class Bad2(F):
            @staticmethod
            def backward(ctx, g):
                return g, g, g

        try:
            Bad2.apply(a, 1.0, b).sum().backward()
        except Exception as e:
            log(type(e).__name__, str(e))

        class Bad3(F):
            @staticmethod
            def backward(ctx, g):
                return 3, None, None

        try:
            Bad3.apply(a, 1.0, b).sum().backward()
        except Exception as e:
            log(type(e).__name__, str(e))

        class Bad4(F):
            @staticmethod
            def backward(ctx, g):
                return m.tensor([1.0, 1.0, 1.0, 1.0, 1.0]), None, None

        try:
            Bad4.apply(a, 1.0, b).sum().backward()
        except Exception as e:
            log(type(e).__name__, str(e))

        class Many(F):
            @staticmethod
            def backward(ctx, g):
                return g, None, g, None, None

        Many.apply(a, 1.0, b).sum().backward()

        class Bad5(m.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(3)
                return a * 1

        try:
            Bad5.apply(a)
        except Exception as e:
            log(type(e).__name__, str(e))

        class Bad6(m.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 1

        try:
            Bad6.apply(a).sum().backward()
        except Exception as e:
            log(type(e).__name__, str(e))

    assert_same(program)


def test_outputs_of_a_custom_function():
    def program(m, log):
        class Two(m.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.set_materialize_grads(False)
                return a * 2, a * 3

            @staticmethod
            def backward(ctx, g, h):
                log(g, h)
                return g if h is None else h

        a = m.tensor([1.0, 2.0], True)
        p, q = Two.apply(a)
        log(p.output_nr, q.output_nr)
        p.sum().backward()
        log(a.grad)

        class Two2(Two):
            @staticmethod
            def forward(ctx, a):
                return a * 2, a * 3

        p, q = Two2.apply(a)
        q.sum().backward()
        log(a.grad)

        class ND(m.Function):
            @staticmethod
            def forward(ctx, a):
                b = a * 2
                c = a > 1
                return b, c, "text", a * 7

            @staticmethod
            def backward(ctx, g, h, t, u):
                log(g, u, t)
                return g

        p, q, t, u = ND.apply(a)
        log(p.requires_grad, q.requires_grad, t, u.output_nr)
        p.sum().backward()

        class Ident(m.Function):
            @staticmethod
            def forward(ctx, a):
                return a

            @staticmethod
            def backward(ctx, g):
                return g * 5

        p = Ident.apply(a)
        log(p is a, p.grad_fn, p._is_view())
        p.sum().backward()
        log(a.grad)
        try:
            Ident.apply(a * 1).mul_(2)
        except Exception as e:
            log(type(e).__name__, str(e))

        class V(m.Function):
            @staticmethod
            def forward(ctx, a):
                return a.view(2, 1)

            @staticmethod
            def backward(ctx, g):
                return g.view(2)

        p = V.apply(a * 1)
        log(p.grad_fn)
        try:
            p.mul_(2)
        except Exception as e:
            log(type(e).__name__, str(e))

    assert_same(program)


def test_what_a_function_leaves_out_says_where_it_is():
    with pytest.raises(AttributeError, match=r"no attribute 'setup_context'.*torch_device"):

        class Split(Function):
            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

    class Dirty(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x

    with pytest.raises(AttributeError, match=r"'DirtyBackward' object.*'mark_dirty'.*torch_device"):
        Dirty.apply(lab.ones(2))


def test_once_differentiable():
    def program(m, log):
        a = m.tensor([1.0, 2.0], True)

        class Once(m.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 2

            @staticmethod
            @m.once_differentiable
            def backward(ctx, g):
                return g * 2

        (g,) = m.grad(Once.apply(a).sum(), a, create_graph=True)
        log(g.requires_grad)
        y = Once.apply(a)
        s = m.tensor([1.0, 1.0], True)
        (g,) = m.grad(y, a, s, create_graph=True)
        log(g.requires_grad, g.grad_fn.name())
        g.sum().backward()

    assert_same(program)


def test_a_backward_inside_a_backward():
    def program(m, log):
        class R(m.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.a = a.detach()
                return a * 2

            @staticmethod
            def backward(ctx, g):
                with m.enable_grad():
                    b = ctx.a.detach().requires_grad_()
                    c = b * b * b
                    c.register_hook(lambda g: log("in"))
                c.sum().backward()
                return b.grad * g

        x = m.tensor([1.0, 2.0], True)
        y = R.apply(x)
        y.register_hook(lambda g: log("out"))
        (y + x * 2).sum().backward()
        log(x.grad)

    assert_same(program)


def test_what_a_node_takes_can_be_shown_where_an_output_is_no_tensor():
    class WithNumber(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, 3

    y, _ = WithNumber.apply(lab.tensor([1.0], requires_grad=True))
    shown = repr(y.grad_fn._input_metadata)
    assert shown.count("InputMetadata(shape=[1], dtype=labkit.float32, device=cpu)") == 1
    assert shown.count("InputMetadata(shape=None, dtype=None, device=None)") == 1
