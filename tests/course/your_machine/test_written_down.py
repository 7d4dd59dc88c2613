"""An answer as text: with the helpers it uses, in an order in which it runs again."""

import functools
import math
import threading
from collections import Counter

import pytest

from labkit import course
from labkit.course.written import judged
from labkit.course.your_machine.written_down import CannotBeKept, written_down

FACTOR = 3
TABLE = {"twice": lambda value: 2 * value}
SLOTS = frozenset({"a", "b"})
x = LOCK = threading.Lock()


def read(text):
    space = {"__name__": "elsewhere"}
    exec(text, space)
    return space["answer"]


def helper(value):
    return value * FACTOR


def with_helpers(value):
    x = helper(value)  # a name of its own, although one of the module is called so as well
    return math.floor(x) + TABLE["twice"](1) + len(SLOTS) + Counter("aa")["a"]


def test_helpers_constants_tables_and_imports_come_along():
    text = written_down(with_helpers)
    assert read(text)(5) == with_helpers(5) == 15 + 2 + 2 + 2
    assert "import math" in text and "from collections import Counter" in text
    assert "FACTOR = 3" in text and "LOCK" not in text


def test_a_tuple_of_functions_stays_one():
    first, second = read(written_down((helper, with_helpers)))
    assert first(2) == 6 and second(5) == with_helpers(5)


def counts(n):
    return 1 if n == 0 else n * counts(n - 1)


@functools.cache
def cached(n):
    return counts(n)


def test_recursion_and_decorators_of_the_standard_library():
    assert read(written_down(counts))(5) == 120
    assert "@functools.cache" in written_down(cached)


def stub(value):
    raise NotImplementedError


def ready(value):
    return helper(value) + 1


used = course.yours(helper, ready)
unused = course.yours(stub, ready)


def calls_used(value):
    return used(value)


def calls_unused(value):
    return unused(value)


def test_behind_yours_is_the_answer_and_for_a_stub_the_finished_one():
    assert read(written_down(calls_used))(2) == 6
    assert read(written_down(calls_unused))(2) == 7


def test_behind_yours_is_the_finished_one_where_the_check_refused_the_answer():
    judged(helper, right=False)
    try:
        assert read(written_down(calls_used))(2) == 7
    finally:
        judged(helper, right=True)


class Node:
    """A class is an answer, too."""

    weight = FACTOR

    def twice(self):
        return 2 * self.weight


def test_classes_are_written_down():
    assert read(written_down(Node))().twice() == 6


def test_what_no_text_can_say_is_refused_with_a_reason():
    with pytest.raises(CannotBeKept, match="names of the function around it"):
        written_down(_closure())
    with pytest.raises(CannotBeKept, match="no source"):
        written_down(lambda: 1)


def _closure():
    outer = 1

    def inner():
        return outer

    return inner
