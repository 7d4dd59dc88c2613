"""Views, writes to them, and what may not be written."""

from types import SimpleNamespace

import torch

import labkit as lab
from tests.autograd.both import assert_same, said_by


def test_a_write_to_a_view_rewrites_the_base():
    def program(m, log):
        x = m.tensor([[1.0, 2.0], [3.0, 4.0]], True)
        y = x * 2
        v = y[0]
        w = y.view(4)
        v.mul_(3)
        log(y.grad_fn)
        log(v.grad_fn)
        log(w.grad_fn)
        log(y._version, v._version)
        (y * w.view(2, 2)).sum().backward()
        log(x.grad)

    assert_same(program)


def test_answers_written_over_a_tensor_end_its_history():
    def program(m, log):
        for name in ("eq_", "ne_", "lt_", "le_", "gt_", "ge_"):
            for operand in (2.0, m.tensor([[2.0], [1.0]], True)):
                x = m.tensor([[1.0, 2.0], [3.0, 4.0]], True)
                y = x * 2
                getattr(y, name)(operand)
                log(y, y.grad_fn)
                y.sum().backward()
                log(x.grad, getattr(operand, "grad", None))
        z = m.tensor([1.0, 2.0])
        z.eq_(m.tensor([1.0, 1.0], True))
        log(z.requires_grad, z.grad_fn)

    assert_same(program)


def test_answers_are_not_written_over_a_leaf_and_quotients_have_no_derivative():
    def program(m, log):
        for name in ("eq_", "ge_", "floor_divide_"):
            try:
                getattr(m.tensor([1.0, 2.0], True), name)(m.tensor([1.0, 1.0]))
            except RuntimeError as error:
                log(str(error))
        for name in ("floor_divide_", "floor_divide"):
            quotient = getattr(m.tensor([1.0, 2.0], True) * 2, name)(m.tensor([1.0, 1.0]))
            log(quotient)
            try:
                quotient.sum().backward()
            except RuntimeError as error:
                log(str(error).replace("_.Tensor", "_"))  # torch calls it by its C++ function

    assert_same(program)


def test_a_constant_gets_history_through_its_view():
    def program(m, log):
        b = m.tensor([[1.0, 2.0], [3.0, 4.0]])
        x = m.tensor([5.0, 6.0], True)
        v = b[1]
        log(v.requires_grad, v.is_leaf)
        v.mul_(x)
        log(b.requires_grad, b.grad_fn)
        log(b[0].requires_grad, v.grad_fn)
        u = b.t()[0]
        u.add_(x)
        log(b.grad_fn)
        b.sum().backward()
        log(x.grad)

    assert_same(program)


def test_a_call_is_numbered_before_the_views_it_makes_anew():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        y = x * 2
        v, w = y[0], y[1]
        y.mul_(3)
        z = v * w
        names = [z.grad_fn, v.grad_fn, w.grad_fn]
        log([node._sequence_nr() - y.grad_fn._sequence_nr() for node in names])

    assert_same(program)


def test_refusals_in_the_words_of_pytorch():
    def program(m, log):
        x = m.tensor([1.0, 2.0, 3.0], True)

        def f():
            with m.no_grad():
                v = x.view(-1)
            log(v.requires_grad, v.grad_fn, v.is_leaf, v._is_view())
            v.mul_(2)

        log.attempt(f)

        def f():
            with m.no_grad():
                v = x.view(-1)
                v.mul_(2)
            return v.grad_fn

        log.attempt(f)

        def f():
            y = x * 1
            with m.no_grad():
                v = y.view(-1)
            y.mul_(2)
            return v.grad_fn

        log.attempt(f)

        def f():
            (x * 1).split(1)[0].mul_(2)

        log.attempt(f)

        def f():
            (x * 1).unbind()[1].mul_(2)

        log.attempt(f)

        def f():
            a = (x * 1).unbind()[0]
            with m.no_grad():
                a.mul_(2)
            return a.grad_fn

        log.attempt(f)

        def f():
            with m.no_grad():
                a = (x * 1).unbind()[0]
            a.mul_(2)
            return a.grad_fn

        log.attempt(f)

        def f():
            m.tensor([1.0, 2.0]).unbind()[0].mul_(x[0])

        log.attempt(f)
        log.attempt(lambda: x.mul_(2))
        log.attempt(lambda: x.view(-1).mul_(2))

        def f():
            b = m.tensor([1.0, 2.0, 3.0])
            with m.no_grad():
                v = b.view(-1)
            v.mul_(x)

        log.attempt(f)

        def f():
            y = x * 1
            y2 = y * y
            y.add_(1)
            y2.sum().backward()

        log.attempt(f)

        def f():
            y = x * 1
            v = y[:2]
            z = v * v
            y.mul_(2)
            z.sum().backward()

        log.attempt(f)

        def f():
            z = (x * x).sum()
            z.backward()
            z.backward()

        log.attempt(f)
        log.attempt(lambda: (x * 1).view(-1).detach_())
        log.attempt(lambda: m.tensor([1.0]).sum().backward())
        log.attempt(lambda: (x * 1).backward())
        log.attempt(lambda: m.grad((x * 1).sum(), [m.tensor([1.0], True)]))
        log.attempt(lambda: m.grad((x * 1).sum(), [m.tensor([1.0])]))
        log.attempt(lambda: m.grad((x * 1).sum(), []))
        log.attempt(lambda: m.grad((x * 1).sum(), [m.tensor([1.0], True)], allow_unused=True)[0])
        log.attempt(lambda: (x * 1).backward(m.tensor([1.0, 1.0])))
        log.attempt(lambda: (x * 1).backward(3))
        log.attempt(lambda: setattr(x * 1, "requires_grad", False))
        log.attempt(lambda: setattr(x, "requires_grad", 3))
        log.attempt(lambda: setattr(x, "grad", 3))
        log.attempt(lambda: setattr(x, "grad", m.tensor([1.0, 1.0, 1.0, 1.0])))
        log.attempt(lambda: setattr(x, "grad", x))

    assert_same(program)


def test_detached_tensors():
    def program(m, log):
        x = m.tensor([1.0, 2.0], True)
        y = x * 2
        d = y.detach()
        log(d.requires_grad, d._is_view(), d._version)
        y.mul_(2)
        log(d._version)
        d.mul_(1)
        log(y._version)
        z = x * 3
        z.detach_()
        log(z.requires_grad, z.is_leaf, z.grad_fn)
        x.data.mul_(2)
        log(x._version)
        y = x * 1
        log(y.is_leaf, x.is_leaf, d.is_leaf)
        x.requires_grad_(False)
        log(x.requires_grad)

    assert_same(program)


def test_a_view_of_other_elements_is_asked_for_its_node_where_nothing_is_recorded():
    def program(m, log):
        x = m.tensor([1 + 1j], requires_grad=True).clone()
        real = x.real
        x.add_(1)
        with m.no_grad():
            log(type(real.grad_fn).__name__)

    ours, theirs = (
        said_by(SimpleNamespace(tensor=m.tensor, no_grad=m.no_grad), program) for m in (lab, torch)
    )
    assert ours == theirs == [["AsStridedBackward0"]]


def test_a_view_of_a_banned_view_is_banned_for_the_reason_that_counts():
    def program(m, log):
        x = m.tensor([1.0, 2.0, 3.0, 4.0], True)
        for outer in (m.no_grad, m.inference_mode, m.enable_grad):
            for made in (lambda v: v[:2], lambda v: v.split(2)[0]):
                y = x * 1
                with outer():
                    before = y[:4]
                view, further = made(before), made(made(before))
                log.attempt(lambda view=view: view.mul_(2).tolist())
                log.attempt(lambda view=further: view.mul_(2).tolist())

    assert_same(program)


def test_a_leaf_that_is_a_view_made_in_no_grad_mode_takes_no_gradient_once_it_was_written():
    def program(m, log):
        for written in (False, True):
            x = m.tensor([1.0, 2.0], True)
            with m.no_grad():
                leaf = x[:1]
            leaf.requires_grad_()
            y = (leaf * 3).sum()
            if written:
                with m.no_grad():
                    leaf.zero_()
            log.attempt(y.backward)
            log.attempt(lambda leaf=leaf: leaf.grad.tolist())

    assert_same(program)
