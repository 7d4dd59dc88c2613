"""Smaller cases of an exercise whose case is a list: the same list with fewer items."""

from collections.abc import Callable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def fewer(
    items: list[Item], sound: Callable[[list[Item]], bool] = lambda items: True
) -> Iterator[list[Item]]:
    """The list without a half of it, then a quarter, at last one item: where that is `sound`."""
    length = max(1, len(items) // 2)
    while length:
        for at in range(0, len(items), length):
            rest = items[:at] + items[at + length :]
            if sound(rest):
                yield rest
        length //= 2
