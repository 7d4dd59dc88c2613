"""One rank's training step against the calls that the other ranks make: what it sends, and when."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import handed_out

Log = list[str]
Steps = list[list[list[int]]]
"""step -> rank -> the parameters it uses, in the order in which forward uses them."""


class Peers:
    """What `all_reduce` means to one rank: every call is logged, and its sum is there after `wait`.

    peers   what the other ranks send together, call by call
    """

    def __init__(self, peers: list[torch.Tensor], log: Log) -> None:
        self.peers, self.log, self.count = peers, log, 0

    def all_reduce(self, flat: torch.Tensor) -> "Handle":
        """Begin to add `flat` up over all ranks; it holds the sum after `wait()` of the result."""
        number, self.count = self.count, self.count + 1
        self.log.append(f"bucket {number} starts: {flat.numel()}")
        if number >= len(self.peers):
            raise RuntimeError(f"the others make {len(self.peers)} calls: this one waits for ever")
        if flat.shape != self.peers[number].shape:
            yours, theirs = tuple(flat.shape), tuple(self.peers[number].shape)
            raise RuntimeError(f"call {number}: yours has shape {yours}, the others' {theirs}")
        return Handle(self, number, flat)


class Handle:
    """One call under way."""

    def __init__(self, peers: Peers, number: int, flat: torch.Tensor) -> None:
        self.peers, self.number, self.flat = peers, number, flat

    def wait(self) -> None:
        """From now on `flat` holds the sum."""
        if self.flat is not None:
            self.peers.log.append(f"bucket {self.number} arrives")
            self.flat += self.peers.peers[self.number]
            self.flat = None


@handed_out
def fresh(shapes: list[tuple[int, ...]]) -> list[torch.nn.Parameter]:
    """The parameters at the start, the same on every rank."""
    return [
        torch.nn.Parameter((torch.arange(float(_count(shape))) % 3 + 1 + place).reshape(shape))
        for place, shape in enumerate(shapes)
    ]


@handed_out
def loss_of(parameters: Any, uses: list[int], rank: int, step: int) -> torch.Tensor:
    """What a rank's own rows make of the parameters it uses."""
    total = torch.zeros(())
    for place in uses:
        p = parameters[place]
        slope = (torch.arange(float(p.numel())) + place + 2 * rank + step) % 5 + 1
        total = total + (p.flatten() * p.flatten() * slope).sum()
    return total


@handed_out
def _count(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def groups_of(counts: list[int], limit: int) -> list[list[int]]:
    """Which parameters travel together: from the last one on, closed at `limit` numbers."""
    found: list[list[int]] = [[]]
    for place in reversed(range(len(counts))):
        if sum(counts[one] for one in found[-1]) >= limit:
            found.append([])
        found[-1].append(place)
    return [group for group in found if group]


class Sender:
    """The parameters in their buckets, of which the next can be sent; the chapter shows it."""

    def __init__(self, parameters: Any, groups: list[list[int]], all_reduce: Any, ranks: int):
        self.parameters, self.groups = list(parameters), [list(group) for group in groups]
        self.all_reduce, self.ranks = all_reduce, ranks
        self.ready: set[int] = set()
        self.sent: list[Any] = []
        for place, p in enumerate(self.parameters):
            p.register_post_accumulate_grad_hook(lambda _, place=place: self.arrived(place))

    def start(self) -> None:
        """Begin with the next bucket."""
        group = [self.parameters[place] for place in self.groups[len(self.sent)]]
        flat = flat_of(group)
        self.sent.append((group, flat, self.all_reduce(flat)))

    def arrived(self, place: int) -> None:
        """The gradient of this parameter is complete."""
        raise NotImplementedError

    def finish(self) -> None:
        """Every gradient is the average over all ranks."""
        raise NotImplementedError


@handed_out
def one_rank(
    make: Callable[..., Any], shapes: Any, groups: Any, steps: Steps, rank: int, sent: Any
) -> dict[str, Any]:
    """What `make(parameters, groups, all_reduce, ranks)` does in every step, as this rank.

    sent   step -> rank -> what that rank sends, call by call
    """
    parameters, log = fresh(shapes), Log()
    for place, p in enumerate(parameters):
        p.register_post_accumulate_grad_hook(lambda _, place=place: log.append(f"grad {place}"))
    peers = Peers([], log)
    ranks = len(steps[0])
    yours = make(parameters, groups, lambda flat: peers.all_reduce(flat), ranks)
    logs, gradients = [], []
    for number, step in enumerate(steps):
        others = [each for one, each in enumerate(sent[number]) if one != rank]
        alone = [torch.zeros_like(flat) for flat in sent[number][rank]]
        peers.peers = [sum(each) for each in zip(*others, strict=True)] or alone
        peers.count = 0
        log.clear()
        loss_of(parameters, step[rank], rank, number).backward()
        log.append("backward ends")
        yours.finish()
        if peers.count < len(peers.peers):
            log.append(f"the others wait for ever: they make {len(peers.peers)} calls")
        logs.append(sorted_arrivals(log))
        gradients.append([None if p.grad is None else p.grad.clone() for p in parameters])
        take_step(parameters, [p.grad for p in parameters])
    return {"log": logs, "gradients": gradients}


@handed_out
def take_step(parameters: Any, gradients: list[torch.Tensor | None]) -> None:
    """A small step against these gradients; the parameters have none of their own afterwards."""
    with torch.no_grad():
        for p, gradient in zip(parameters, gradients, strict=True):
            p -= 0.0 if gradient is None else 0.03125 * gradient
            p.grad = None


@handed_out
def sorted_arrivals(log: Log) -> Log:
    """The log; what arrives after backward may be waited for in any order."""
    end = log.index("backward ends") + 1
    arrivals = [one for one in log[end:] if one.endswith("arrives")]
    return [*log[:end], *(one for one in log[end:] if one not in arrivals), *sorted(arrivals)]


@handed_out
def flat_of(group: list[torch.nn.Parameter]) -> torch.Tensor:
    """The gradients of these parameters one after the other; zeros where there is none."""
    parts = [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in group]
    return torch.cat(parts)


def sent_by_all(shapes: Any, groups: Any, steps: Steps) -> list[list[list[torch.Tensor]]]:
    """Step -> rank -> what that rank sends, call by call."""
    parameters, found = fresh(shapes), []
    for number, step in enumerate(steps):
        each = []
        for rank, uses in enumerate(step):
            loss_of(parameters, uses, rank, number).backward()
            each.append([flat_of([parameters[one] for one in group]) for group in groups])
            take_step(parameters, [None] * len(parameters))
        found.append(each)
        take_step(parameters, averages(parameters, groups, each))
    return found


def averages(parameters: Any, groups: list[list[int]], each: Any) -> list[torch.Tensor]:
    """What every gradient is, on every rank, once `each` rank has sent its buckets."""
    found: dict[int, torch.Tensor] = {}
    for group, flats in zip(groups, zip(*each, strict=True), strict=True):
        parts = (sum(flats) / len(each)).split([parameters[one].numel() for one in group])
        for one, part in zip(group, parts, strict=True):
            found[one] = part.view_as(parameters[one])
    return [found[place] for place in range(len(parameters))]


def right_runs(shapes: Any, groups: Any, steps: Steps, sent: Any) -> dict[str, Any]:
    """Rank -> the log and the gradients of every step."""
    return {
        f"rank {rank}": _right_rank(shapes, groups, steps, rank, sent)
        for rank in range(len(steps[0]))
    }


def _right_rank(shapes: Any, groups: Any, steps: Steps, rank: int, sent: Any) -> dict[str, Any]:
    parameters, order = fresh(shapes), list[int]()
    for place, p in enumerate(parameters):
        p.register_post_accumulate_grad_hook(lambda _, place=place: order.append(place))
    logs, gradients = [], []
    for number, step in enumerate(steps):
        order.clear()
        loss_of(parameters, step[rank], rank, number).backward()
        logs.append(_right_log(order, groups, [flat.numel() for flat in sent[number][rank]]))
        gradients.append(averages(parameters, groups, sent[number]))
        take_step(parameters, gradients[-1])
    return {"log": logs, "gradients": gradients}


def _right_log(order: list[int], groups: list[list[int]], counts: list[int]) -> Log:
    log, ready, begun = Log(), set[int](), 0
    for place in order:
        log.append(f"grad {place}")
        ready.add(place)
        while begun < len(groups) and ready.issuperset(groups[begun]):
            log.append(f"bucket {begun} starts: {counts[begun]}")
            begun += 1
    log.append("backward ends")
    log += [f"bucket {n} starts: {counts[n]}" for n in range(begun, len(groups))]
    return log + sorted(f"bucket {n} arrives" for n in range(len(groups)))
