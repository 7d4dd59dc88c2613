"""backward and grad: what they compute, keep and refuse."""

from tests.autograd.both import assert_same


def test_second_and_third_derivatives():
    def program(m, log):
        x = m.tensor([1.0, 2.0, 3.0], True)
        y = (x * x * x).sum()
        (g,) = m.grad(y, x, create_graph=True)
        log(g.grad_fn)
        (h,) = m.grad(g.sum(), x, create_graph=True)
        log(h)
        (k,) = m.grad(h.sum(), x)
        log(k)
        (x * x).sum().backward(create_graph=True)
        log(x.grad.requires_grad)

    assert_same(program)


def test_gradients_of_some_inputs_only():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        z = m.tensor([1.0, 1.0], True)
        y = x * z
        w = y * 3
        w.sum().backward(inputs=[x], retain_graph=True)
        log(x.grad, z.grad)
        w.sum().backward(inputs=[y])
        log(y.grad, x.grad)
        y = x * 2
        r = y * z
        y.register_hook(lambda g: log("h", g))
        log(m.grad(r.sum(), [y, x], retain_graph=True))
        log(m.grad(r.sum(), [y]))

    assert_same(program)


def test_who_owns_the_memory_of_a_gradient():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        g = m.tensor([3.0, 4.0])
        x.view(2).backward(g)
        log(x.grad.data_ptr() == g.data_ptr())
        x.grad = None
        (x + x).backward(g)
        log(x.grad.data_ptr() == g.data_ptr())
        p = x.grad.data_ptr()
        (x * 1).backward(g)
        log(x.grad.data_ptr() == p, g)
        x.grad = None
        y = m.tensor([1.0, 2.0], True)
        (x + y).backward(g)
        log(
            x.grad.data_ptr() == g.data_ptr(),
            y.grad.data_ptr() == g.data_ptr(),
            x.grad.data_ptr() == y.grad.data_ptr(),
        )
        x.grad = None
        y.grad = None
        x.sum().backward()
        log(x.grad.stride(), x.grad)
        x = m.tensor([[1.0, 2.0], [3.0, 4.0]], True)
        x.t().sum(0).sum().backward()
        log(list(x.grad.stride()))
        x.grad = None
        x.t().backward(m.tensor([[1.0, 1.0], [1.0, 1.0]]))
        log(list(x.grad.stride()))

    assert_same(program)


def test_anomaly_mode_finds_the_nan():
    def program(m, log):
        x = m.tensor([0.0], True)
        with m.anomaly(True):
            y = x / x
            try:
                y.sum().backward()
            except Exception as e:
                log(type(e).__name__, str(e))
            a = m.tensor([1.0], True) * 1
            b = a * a
            a.mul_(2)
            try:
                b.sum().backward()
            except Exception as e:
                log(type(e).__name__, str(e))

    assert_same(program)
