"""Checkpointing."""

from tests.autograd.both import assert_same


def first_sentences(error):
    """Without PyTorch's tip, and without how each side prints a shape and a type."""
    return str(error).partition("saved metadata")[0].partition("Tip")[0].strip()


def test_checkpoint():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        n = [0]

        def f(a, b=1):
            n[0] += 1
            log("f", m.is_grad_enabled())
            return (a * a * a) * 2, a * b

        y, z = m.checkpoint(f, x, use_reentrant=False)
        log(y.grad_fn)
        (y + z).sum().backward()
        log(x.grad, n[0])
        with m.no_grad():
            log(m.checkpoint(f, x, use_reentrant=False)[0].requires_grad)
        x = m.tensor([1.0, 2.0], True)
        y = m.checkpoint(lambda a, k: a * a * k, x, k=3.0, use_reentrant=False)
        y.sum().backward()
        log(x.grad)
        log(m.grad(m.checkpoint(lambda a: a * a * a, x, use_reentrant=False).sum(), x))

        # nested
        def inner(a):
            log("inner")
            return a * a * a

        def outer(a):
            log("outer")
            b = m.checkpoint(inner, a * 2, use_reentrant=False)
            return b * b

        x.grad = None
        m.checkpoint(outer, x, use_reentrant=False).sum().backward()
        log(x.grad)
        # twice w/ retain
        y = m.checkpoint(inner, x, use_reentrant=False).sum()
        y.backward(retain_graph=True)
        y.backward()
        log(x.grad)
        state = [0]

        def nd(a):
            state[0] += 1
            return a * a if state[0] == 1 else a * a[:1] * a

        try:
            m.checkpoint(nd, x, use_reentrant=False).sum().backward()
        except Exception as e:
            log(type(e).__name__, first_sentences(e))

        def nd2(a):
            state[0] += 1
            return (a * 1) * (a * 1) if state[0] == 3 else a

        try:
            m.checkpoint(nd2, x, use_reentrant=False).sum().backward()
        except Exception as e:
            log(type(e).__name__, first_sentences(e))

    assert_same(program)
