"""no_grad, enable_grad, inference mode: managers and decorators."""

from tests.autograd.both import assert_same


def test_grad_modes():
    def program(m, log):
        x = m.tensor([1.0], True)
        with m.no_grad():
            log((x * 2).requires_grad)

        @m.no_grad()
        def f():
            return (x * 2).requires_grad

        log(f())

        @m.no_grad
        def f2():
            return (x * 2).requires_grad

        log(f2())

        m.set_grad_enabled(False)
        log((x * 2).requires_grad)
        m.set_grad_enabled(True)
        with m.set_grad_enabled(False), m.enable_grad():
            log((x * 2).requires_grad)
        log((x * 2).requires_grad)

    assert_same(program)


def test_inference_mode():
    def program(m, log):
        x = m.tensor([1.0, 2.0, 3.0], True)

        def f():
            with m.inference_mode():
                i = m.tensor([1.0, 1.0, 1.0])
                log(i.is_inference(), i.requires_grad, m.is_grad_enabled())
            return i.add(x).grad_fn

        log.attempt(f)

        def f():
            with m.inference_mode():
                i = m.tensor([1.0, 1.0, 1.0])
            return i * x

        log.attempt(f)

        def f():
            with m.inference_mode():
                i = m.tensor([1.0, 1.0, 1.0])
            i.mul_(2)

        log.attempt(f)

        def f():
            with m.inference_mode():
                i = m.tensor([1.0, 1.0, 1.0])
                i.mul_(2)
                i.view(-1).add_(1)
            return i

        log.attempt(f)

        def f():
            with m.inference_mode():
                i = m.tensor([1.0, 1.0, 1.0])
            i.requires_grad_()

        log.attempt(f)

        def f():
            with m.inference_mode():
                i = m.tensor([1.0, 1.0, 1.0])
            return i._version

        log.attempt(f)

        def f():
            with m.inference_mode():
                i = m.tensor([1.0, 1.0, 1.0])
            return (i + 1).is_inference(), i.view(-1).is_inference(), i.clone().is_inference()

        log.attempt(f)

        def f():
            y = x * 1
            with m.inference_mode():
                v = y.view(-1)
            log(v.is_inference(), v._is_view(), v.requires_grad)
            v.mul_(2)

        log.attempt(f)

        def f():
            y = x * 1
            with m.inference_mode():
                y.mul_(2)
                log(y._version)
            return y.grad_fn

        log.attempt(f)

        @m.inference_mode()
        def g():
            return (x * 2).is_inference()

        log.attempt(g)

        def f():
            with m.inference_mode(), m.inference_mode(False):
                return (m.tensor([1.0, 1.0, 1.0])).is_inference(), m.is_grad_enabled()

        log.attempt(f)

    assert_same(program)
