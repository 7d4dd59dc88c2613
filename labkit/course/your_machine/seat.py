"""A seat: one place in labkit that one exercise fills.

A seat names functions of labkit. While the machine runs, a call of one of them asks the learner's
answer the same question: `inputs` says it in the words of the exercise, `result` turns what comes
back into what the caller expects, and labkit's own function is asked too, so that the first answer
that differs is seen at the call.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

LAYERS = ("Python", "dispatch", "autograd", "shapes", "memory", "kernels")
"""The stack, from the Python call down to the kernel."""


class Differs(Exception):
    """A part did something else than labkit does; both in words.

    inputs  of the call, where they are those of the exercise
    """

    def __init__(self, got: Any, right: Any, inputs: tuple[Any, ...] | None = None) -> None:
        super().__init__(f"{got!r}, labkit's {right!r}")
        self.got, self.right, self.inputs = got, right, inputs


class Ask(Protocol):
    """Asks the part. What it raises is raised.

    answer  the part itself: a function, a class, or a tuple of them and of texts
    which   of several functions in the tuple, or a method of what the part made
    """

    answer: Any

    def __call__(self, *inputs: Any, which: int | Callable[..., Any] | None = None) -> Any:
        """What the part returns."""

    def outside(self) -> AbstractContextManager[None]:
        """Inside, labkit runs, called back by the part."""


def same(mine: Any, right: Any) -> bool:
    """Whether two plain values are equal."""
    return type(mine) is type(right) and bool(mine == right)


@dataclass(frozen=True)
class Place:
    """One function of labkit, and how a call of it is a question of an exercise.

    function  its dotted name
    mine      (ask, *args) -> what the part makes of the call
    covers    (*args) -> whether the exercise covers this call; labkit serves the others, and they
              do not count
    right     (function, *args) -> labkit's answer to compare; None: what the function returns
    same      (mine, right, *args) -> whether they agree
    commit    (value, *args) -> what the caller gets, for calls that change something
    checks    `mine` compares by itself, while it runs, and raises `Differs`
    """

    function: str
    mine: Callable[..., Any]
    right: Callable[..., Any] | None = None
    same: Callable[..., bool] = lambda mine, right, *args: same(mine, right)
    commit: Callable[..., Any] | None = None
    checks: bool = False
    covers: Callable[..., bool] = lambda *args: True


@dataclass(frozen=True)
class Seat:
    """One place in the machine.

    exercise  whose answer fits it
    title     what it does, in a few words
    layer     of the stack, one of LAYERS
    contract  what a part has to do here, one sentence
    pytorch   PyTorch's file and symbol
    places    the functions of labkit that it replaces
    """

    exercise: str
    title: str
    layer: str
    contract: str
    pytorch: str
    places: tuple[Place, ...]

    @property
    def name(self) -> str:
        """The exercise's name, without its chapter."""
        return self.exercise.partition(".")[2]


def place(
    function: str,
    inputs: Callable[..., tuple[Any, ...]],
    result: Callable[..., Any] = lambda value, *args: value,
    which: int | None = None,
    same: Callable[..., bool] = lambda mine, right, *args: same(mine, right),
    refuses: Callable[..., Any] | None = None,
    covers: Callable[..., bool] = lambda *args: True,
) -> Place:
    """A place whose question is plain data.

    inputs   (*args) -> what the exercise is asked
    result   (value, *args) -> what the caller expects, from the part's value
    which    of several functions that the answer is a tuple of
    refuses  (*args) -> what a RuntimeError of the part means; None: the caller's own error
    """

    def mine(ask: Ask, *args: Any) -> Any:
        given = inputs(*args)
        try:
            value = ask(*given, which=which)
        except RuntimeError as error:
            if refuses is None or isinstance(error, NotImplementedError):
                raise
            return refuses(*args)
        return result(value, *args)

    return Place(function, mine, same=same, covers=covers)
