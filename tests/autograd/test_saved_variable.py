"""Saved tensors: versions, hooks, release."""

from tests.autograd.both import assert_same


def test_saved_tensor_hooks():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        with m.graph.saved_tensors_hooks(
            lambda t: (log("pack", t, t.requires_grad), t.detach() * 1)[1],
            lambda t: (log("unpack", t), t)[1],
        ):
            y = (x * x).exp() if hasattr(x, "exp") else x * x
        log(y.grad_fn._saved_result if hasattr(y.grad_fn, "_saved_result") else None)
        y.sum().backward()
        log(x.grad)

        def bad(t):
            t.mul_(2)
            return t

        try:
            with m.graph.saved_tensors_hooks(bad, lambda t: t):
                y = (x * 1) * (x * 1)
        except Exception as e:
            log(type(e).__name__, str(e))
        with m.graph.saved_tensors_hooks(lambda t: 3, lambda t: 4):
            y = x * x
        try:
            y.sum().backward()
        except Exception as e:
            log(type(e).__name__, str(e))

    assert_same(program)


def test_what_a_node_has_saved():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        y = x * x
        log(
            y.grad_fn._saved_self,
            y.grad_fn._saved_self is x,
            y.grad_fn._raw_saved_other is not None,
        )
        c = m.tensor([3.0, 3.0])
        z = x * c
        log(z.grad_fn._saved_self, z.grad_fn._saved_other)
        z.sum().backward()
        try:
            log(z.grad_fn._saved_other)
        except Exception as e:
            log(type(e).__name__, str(e))
        w = y.sum(0, keepdim=True)
        log(w.grad_fn._saved_dim, w.grad_fn._saved_keepdim, list(w.grad_fn._saved_self_sym_sizes))
        log(
            z.grad_fn._sequence_nr() - y.grad_fn._sequence_nr(),
            [list(i.shape) for i in w.grad_fn._input_metadata],
        )

    assert_same(program)


def test_tensors_are_packed_and_unpacked_in_the_order_of_their_names():
    def program(m, log):
        a, b, c = (m.tensor([number], True) for number in (2.0, 3.0, 0.5))
        hooks = m.graph.saved_tensors_hooks(
            lambda t: (log("pack", t), t)[1], lambda t: (log("unpack", t), t)[1]
        )
        with hooks:
            results = [a * b, a / b, a**b, a.lerp(b, c)]
        for result in results:
            result.backward()

    assert_same(program)


def test_an_input_that_was_detached_in_place_is_refused():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        y = x * 1
        z = y * y
        y.detach_()
        log.attempt(z.sum().backward)

    assert_same(program)


def test_everything_saved_is_unpacked_even_when_it_is_not_needed():
    def program(m, log):
        x, z = m.tensor([1.0, 2.0], True), m.tensor([3.0, 4.0], True)
        a, b = x * 1, z * 1
        y = a * b
        a.add_(1)  # needed for the gradient of b alone
        log.attempt(lambda: m.grad(y.sum(), x))

    assert_same(program)
