"""A chapter goes on with what its reader wrote, and without it."""

import pytest

from labkit import course


def double(number):
    return 2 * number


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
