"""One expression on the installed PyTorch and on labkit: the same value, or the same refusal."""

import torch

import labkit as lab


def outcome(expression, module):
    """What the expression of a module gives: its value as text, or the error's class."""
    try:
        return repr(expression(module)).replace("labkit.", "torch.")
    except Exception as error:
        return type(error)


def assert_beside(expression):
    """The expression, a function of `torch` or `labkit`, gives the same with either."""
    assert outcome(expression, lab) == outcome(expression, torch)


def refusal(expression, module):
    """The text of the error that the expression raises."""
    try:
        value = expression(module)
    except Exception as error:
        return str(error)
    raise AssertionError(f"{module.__name__} takes it: {value!r}")
