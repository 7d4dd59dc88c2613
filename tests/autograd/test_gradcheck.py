"""Our own check of derivatives must pass what is right and fail what is wrong."""

import pytest

import labkit as lab
from labkit.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def _input(*numbers):
    return lab.tensor(list(numbers), dtype=lab.float64).requires_grad_()


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * grad * x * x


class WrongCube(Cube):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x * x


class DetachedCube(Cube):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * grad * x.detach() * x.detach()


def test_right_derivatives_pass():
    assert gradcheck(Cube.apply, _input(0.5, -1.0))
    assert gradgradcheck(Cube.apply, _input(0.5, -1.0))
    assert gradcheck(lambda a, b: (a * b, a + b), (_input(1.0, 2.0), _input(3.0, -1.0)))


def test_wrong_derivatives_fail():
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0"):
        gradcheck(WrongCube.apply, _input(0.5, -1.0))
    assert not gradcheck(WrongCube.apply, _input(0.5), raise_exception=False)


def test_a_backward_that_was_not_recorded_fails_only_the_second_check():
    assert gradcheck(DetachedCube.apply, _input(0.5))
    assert not gradgradcheck(DetachedCube.apply, _input(0.5), raise_exception=False)


def test_inputs_must_be_double_and_require_grad():
    with pytest.raises(ValueError, match="requires_grad=True"):
        gradcheck(lambda x: x, lab.tensor([1.0], dtype=lab.float64))
    with pytest.raises(ValueError, match="float64"):
        gradcheck(lambda x: x * 1, lab.tensor([1.0]).requires_grad_())
