"""Which elements of the input one element of the output can see, along one dimension."""

from collections.abc import Iterable
from typing import NamedTuple, Union


class Window(NamedTuple):
    """A convolution or a pool: output p reads the inputs p * stride - padding + r * dilation."""

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1


class Branches(NamedTuple):
    """Two trunks that read one input and are added."""

    one: "Trunk"
    other: "Trunk"


Trunk = Iterable[Union[Window, Branches]]  # noqa: UP007  a name that is not defined yet is in it


class Field(NamedTuple):
    """Output p sees the inputs p * stride + first up to p * stride + last; padding counts."""

    first: int = 0
    last: int = 0
    stride: int = 1

    @property
    def size(self) -> int:
        """How many inputs that is."""
        return self.last - self.first + 1


def receptive_field(trunk: Trunk, seen: Field = Field()) -> Field:  # noqa: B008  immutable
    """What an output of the trunk sees, if each of its inputs sees `seen`.

    Raises   ValueError   branches that step differently: they cannot be added
    """
    for part in trunk:
        seen = _both(part, seen) if isinstance(part, Branches) else _behind(part, seen)
    return seen


def _behind(window: Window, seen: Field) -> Field:
    reach = (window.kernel - 1) * window.dilation - window.padding
    return Field(
        seen.first - window.padding * seen.stride,
        seen.last + reach * seen.stride,
        seen.stride * window.stride,
    )


def _both(branches: Branches, seen: Field) -> Field:
    one, other = (receptive_field(trunk, seen) for trunk in branches)
    if one.stride != other.stride:
        raise ValueError(f"branches that step by {one.stride} and by {other.stride} do not meet")
    return Field(min(one.first, other.first), max(one.last, other.last), one.stride)
