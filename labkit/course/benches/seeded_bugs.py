"""Five small parts of labkit, and copies of them with one planted fault.

A fault is behaviour: below the part's text something answers otherwise for some inputs. So the
text of the sick part is that of the healthy one, letter by letter, and only a call shows the fault.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.strides import expand_strides
from labkit.memory import sizes

Parts = Mapping[str, Callable[..., Any]]
ORDER = ("CPU", "Python", "AutogradCPU", "AutocastCPU")


def round_size(nbytes: int) -> int:
    """Bytes that the allocator sets aside: the next multiple of 512, and at least 512."""
    return sizes.round_size(nbytes)


def winner(keys: Sequence[str]) -> str:
    """The strongest of these dispatch keys."""
    together = functools.reduce(DispatchKeySet.__or__, map(DispatchKeySet, keys))
    return str(together.slot_key().name)


def next_node(ready: Sequence[tuple[int, str]]) -> str:
    """The name of the node that the engine runs next: the one made last, of the highest number."""
    return max(ready)[1]


def stretched(sizes: Sequence[int], strides: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The strides of a tensor that is expanded to this shape: 0 where it is stretched."""
    return list(expand_strides(tuple(sizes), tuple(strides), shape)[1])


def sectors(addresses: Sequence[int]) -> int:
    """How many pieces of 32 bytes a warp touches that reads 4 bytes at each address."""
    return len({address // 32 for address in addresses})


HEALTHY: Parts = {
    "round_size": round_size, "winner": winner, "next_node": next_node, "stretched": stretched,
    "sectors": sectors,
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """What one part answers otherwise.

    meets   whether it shows for these arguments
    spoils  (the right answer, *arguments) -> the wrong one
    """

    part: str
    name: str
    meets: Callable[..., bool]
    spoils: Callable[..., Any]


def _second(right: str, keys: Sequence[str]) -> str:
    return sorted(keys, key=ORDER.index)[-2]


def _weakest(right: str, keys: Sequence[str]) -> str:
    return min(keys, key=ORDER.index)


def _as_text(right: str, ready: Sequence[tuple[int, str]]) -> str:
    return max(ready, key=lambda one: str(one[0]))[1]


FAULTS = (
    Fault("round_size", "a multiple of 512 gets 512 more",
          lambda n: n > 0 and n % 512 == 0, lambda right, n: right + 512),
    Fault("round_size", "few bytes get 256", lambda n: n < 64, lambda right, n: 256),
    Fault("round_size", "one byte over a multiple is cut off",
          lambda n: n > 512 and n % 512 == 1, lambda right, n: right - 512),
    Fault("winner", "Python beats AutogradCPU",
          lambda keys: "Python" in keys and winner(keys) == "AutogradCPU",
          lambda right, keys: "Python"),
    Fault("winner", "AutocastCPU loses to AutogradCPU",
          lambda keys: {"AutocastCPU", "AutogradCPU"} <= set(keys), _second),
    Fault("winner", "CPU beats Python",
          lambda keys: set(keys) == {"CPU", "Python"}, _weakest),
    Fault("next_node", "the last one is not seen",
          lambda ready: len(ready) > 1 and max(ready) == ready[-1],
          lambda right, ready: max(ready[:-1])[1]),
    Fault("next_node", "numbers are compared as text",
          lambda ready: _as_text("", ready) != next_node(ready), _as_text),
    Fault("stretched", "a stretched dimension keeps its stride",
          lambda a, b, shape: len(a) == len(shape) and tuple(a) != tuple(shape),
          lambda right, a, b, shape: list(b)),
    Fault("stretched", "a new dimension gets stride 1",
          lambda a, b, shape: len(a) < len(shape),
          lambda right, a, b, shape: [1] * (len(shape) - len(a)) + right[len(shape) - len(a):]),
    Fault("sectors", "an address that comes twice counts twice",
          lambda addresses: len(set(addresses)) < len(addresses),
          lambda right, addresses: right + len(addresses) - len(set(addresses))),
    Fault("sectors", "the last 4 bytes of a sector count for the next one",
          lambda addresses: any(a % 32 == 28 for a in addresses),
          lambda right, addresses: len({(a + 4) // 32 for a in addresses} | {a // 32 for a in
                                        addresses})),
)  # fmt: skip


def planted(*faults: Fault) -> dict[str, Callable[..., Any]]:
    """The five parts, those named by a fault sick with it."""
    parts = dict(HEALTHY)
    for fault in faults:
        parts[fault.part] = _sick(parts[fault.part], fault)
    return parts


def _sick(part: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    @functools.wraps(part)
    def answer(*arguments: Any) -> Any:
        right = part(*arguments)
        return fault.spoils(right, *arguments) if fault.meets(*arguments) else right

    return answer


def run(parts: Parts) -> list[str]:
    """A small program that uses all five parts, and says what it did, one event a line."""
    log, place, blocks = [], 0, []
    for name, nbytes in (("weights", 700), ("image", 1024), ("result", 1000)):
        size = parts["round_size"](nbytes)
        log.append(f"allocate {name}: {nbytes} bytes get {size} at {place}")
        blocks.append((name, place, size))
        place += size
    for keys in (("AutogradCPU", "CPU"), ("CPU",)):
        log.append(f"call mul with {' and '.join(keys)}: kernel {parts['winner'](keys)}")
    log.append(f"expand (3, 1) to (3, 4): strides {parts['stretched']((3, 1), (1, 1), (3, 4))}")
    lanes = [blocks[1][1] + 4 * lane for lane in range(32)]
    log.append(f"read the image at {lanes[0]}: {parts['sectors'](lanes)} sectors")
    ready = [(0, "mul"), (1, "sum")]
    while ready:
        node = parts["next_node"](ready)
        log.append(f"backward: node {node}")
        ready = [one for one in ready if one[1] != node]
    for name, at, size in reversed(blocks):
        log.append(f"free {name}: {size} bytes at {at}")
    return log
