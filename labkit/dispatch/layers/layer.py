"""What the layers share: a declared contract, and results put back on a stack."""

from collections.abc import Callable
from typing import Any, TypeVar

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.situation import Next, Situation

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Contract = Callable[[DispatchKeySet, Situation], Next]


def declares(contract: Contract) -> Callable[[Kernel], Kernel]:
    """The kernel says what it does about its own operator, so that `explain` can follow it."""

    def mark(kernel: Kernel) -> Kernel:
        kernel.next_step = contract  # type: ignore[attr-defined]
        return kernel

    return mark


def put_results(stack: list[Any], result: Any) -> None:
    """The stack holds the results instead of the arguments, as a boxed kernel leaves it."""
    stack[:] = list(result) if isinstance(result, tuple) else [] if result is None else [result]


def map_stack(stack: list[Any], function: Callable[[Any], Any]) -> list[Any]:
    """The stack with the function applied to every value, lists included."""
    return [
        type(value)(map(function, value)) if isinstance(value, list | tuple) else function(value)
        for value in stack
    ]
