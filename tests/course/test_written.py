"""A chapter goes on with what its reader wrote, and without it."""

import math

import pytest

from labkit import course
from labkit.course.checking.verdicts import CheckFailed
from labkit.course.written import judged


def double(number):
    return 2 * number


def quadruple(number):
    return sum(double(one) for one in (number, number))


def eightfold(number):
    return math.prod([1, double(quadruple(number))]) if number else eightfold(number + 1)


def test_the_readers_function_is_called_once_it_is_written():
    def stub(number):
        raise NotImplementedError

    def written(number):
        return number + number + 0.5

    assert course.yours(stub, double)(3) == 6
    assert course.yours(written, double)(3) == 6.5


def test_what_the_readers_function_raises_is_not_hidden():
    def broken(number):
        return number[0]

    with pytest.raises(TypeError):
        course.yours(broken, double)(3)


def test_kept_functions_come_after_the_helpers_that_they_call():
    assert course.with_helpers(eightfold) == (double, quadruple, eightfold)
    assert course.with_helpers(quadruple, double) == (double, quadruple)
    assert course.with_helpers(math.prod) == (math.prod,)


def test_a_helper_behind_another_name_is_found(monkeypatch):
    monkeypatch.setitem(globals(), "pair", course.yours(double, double))

    def both(number):
        return pair(number)  # noqa: F821

    assert course.with_helpers(both) == (double, both)


def test_a_function_that_is_written_again_is_called_without_asking_for_it_again():
    cells = {"course": course, "double": double}
    exec("def mine(number):\n    raise NotImplementedError", cells)
    exec("used = course.yours(mine, double)", cells)
    assert cells["used"](3) == 6
    exec("def mine(number):\n    return number + number + 0.5", cells)
    assert cells["used"](3) == 6.5
    exec("mine = used", cells)
    assert cells["used"](3) == 6, "a name for the call itself: the function it was made with"


def test_an_answer_that_its_check_refused_is_not_used(capsys):
    def promote(a, b):
        return a

    used = course.yours(promote, lambda a, b: "finished")
    assert used(1, 2) == 1, "nothing is known about it yet"
    with pytest.raises(CheckFailed):
        course.check("tensors.promote", promote, record=False)
    assert [used(1, 2), used(1, 2)] == ["finished"] * 2
    assert capsys.readouterr().out.count("`promote` failed its check") == 1


def test_an_answer_that_passes_is_used_again():
    def number_dtype(number, default):
        wide = {"float32": "complex64", "float64": "complex128"}
        return {bool: "bool", int: "int64", float: default, complex: wide[default]}[type(number)]

    judged(number_dtype, right=False)
    used = course.yours(number_dtype, lambda number, default: "finished")
    assert used(True, "float32") == "finished"
    course.check("tensors.number_dtype", number_dtype, record=False)
    assert used(True, "float32") == "bool"
