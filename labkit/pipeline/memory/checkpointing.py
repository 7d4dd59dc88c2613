"""Which layers to compute again in backward, when the activations may take so many bytes.

A plan cuts a chain of layers into parts; a part is kept, or computed again as one checkpoint. The
cheapest plan is found exactly: for each place in the chain, and each number of bytes kept in front
of it, only the least work matters.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Layer:
    """What one layer costs.

    saved   bytes that its operators save for backward; entry: bytes of its input, of them or not
    work    of its forward, in FLOPs
    """

    saved: int
    entry: int
    work: int


@dataclass(frozen=True)
class Part:
    """Layers start to end, without end; `again` when backward computes them once more."""

    start: int
    end: int
    again: bool


class DoesNotFit(ValueError):
    """No plan keeps to the bytes."""


def plan(layers: Sequence[Layer], budget: int) -> tuple[Part, ...]:
    """The parts with the least work computed again, such that at no time more bytes are saved.

    Backward of a checkpoint has all that its layers save, beside what is kept in front of it.

    Raises   DoesNotFit   there is none
    """
    ways: list[dict[int, tuple[int, tuple[Part, ...]]]] = [{0: (0, ())}]
    for end in range(1, len(layers) + 1):
        found: dict[int, tuple[int, tuple[Part, ...]]] = {}
        for start in range(end):
            inside = sum(layer.saved for layer in layers[start:end])
            again = sum(layer.work for layer in layers[start:end])
            for kept, (work, parts) in ways[start].items():
                if start == end - 1:
                    _better(found, kept + inside, work, (*parts, Part(start, end, False)), budget)
                entry = layers[start].entry
                if kept + entry + inside <= budget:
                    checkpointed = (*parts, Part(start, end, True))
                    _better(found, kept + entry, work + again, checkpointed, budget)
        ways.append(_undominated(found))
    if not ways[-1]:
        raise DoesNotFit(f"no plan of {len(layers)} layers keeps to {budget} bytes")
    return min(ways[-1].values(), key=lambda way: way[0])[1]


def _better(found: Any, kept: int, work: int, parts: tuple[Part, ...], budget: int) -> None:
    if kept <= budget and (kept not in found or work < found[kept][0]):
        found[kept] = work, parts


def _undominated(found: Any) -> Any:
    """Without the ways that keep more bytes than another one and save no work."""
    least, kept_ways = None, {}
    for kept in sorted(found):
        if least is None or found[kept][0] < least:
            least = found[kept][0]
            kept_ways[kept] = found[kept]
    return kept_ways


KEEPS_ITS_RESULT = (nn.ReLU, nn.Sigmoid, nn.Tanh)
"""Layers that save their result for backward, and nothing else."""
KEEPS_ITS_INPUT = (nn.modules.conv._ConvNd, nn.Linear)
"""Layers that save their input for backward."""


class Checkpointed(nn.Module):  # type: ignore[misc]
    """A chain of layers that computes some of them again in backward, as a plan says.

    A part's last result is kept as the input of the next part. Where only this result is needed of
    its last layer, the layer stands behind the checkpoint: neither it nor the one in front of it,
    which nobody would ask for, is computed again.
    """

    def __init__(self, layers: nn.Sequential, parts: Sequence[Part]) -> None:
        super().__init__()
        self.layers, self.parts = layers, tuple(parts)

    def forward(self, x: Tensor) -> Tensor:
        """The same numbers as the chain's; the random state is the same in both runs."""
        for part, following in itertools.zip_longest(self.parts, self.parts[1:]):
            inside = self.layers[part.start : part.end]
            if not part.again:
                x = inside(x)
                continue
            *rest, last = _flat(inside)
            if rest and isinstance(last, KEEPS_ITS_RESULT) and self._keeps_its_input(following):
                x = last(checkpoint(nn.Sequential(*rest), x, use_reentrant=False))
            else:
                x = checkpoint(inside, x, use_reentrant=False)
        return x

    def _keeps_its_input(self, part: Part | None) -> bool:
        if part is None:
            return False
        return part.again or isinstance(_flat(self.layers[part.start])[0], KEEPS_ITS_INPUT)


def _flat(layer: nn.Module) -> list[nn.Module]:
    """The layers of a chain, and of chains in it, that have no hooks of their own."""
    if type(layer) is not nn.Sequential or layer._forward_hooks or layer._forward_pre_hooks:
        return [layer]
    return [each for inner in layer for each in _flat(inner)]


def measured(layers: nn.Sequential, x: Tensor) -> list[Layer]:
    """What each layer costs with this input.

    A result that its layer saves, and the next layer saves as its input, is one tensor: it counts
    for the next layer, which has it in every plan.
    """
    found: list[Layer] = []
    here: dict[int, int] = {}
    for layer in layers:
        before, entry = here, x.detach().requires_grad_(x.is_floating_point())
        with FlopCounterMode(display=False) as flops:
            here, y = _saved(layer, entry)
        place = entry.untyped_storage().data_ptr()
        if found and place in here and place in before:
            found[-1] = replace(found[-1], saved=found[-1].saved - before[place])
        found.append(Layer(sum(here.values()), x.nbytes, flops.get_total_flops()))
        x = y.detach()
    return found


def saved_bytes(module: nn.Module, x: Tensor) -> tuple[int, Tensor]:
    """(bytes of all that forward saves for backward, its result); parameters are not counted."""
    saved, y = _saved(module, x)
    return sum(saved.values()), y


def _saved(module: nn.Module, x: Tensor) -> tuple[dict[int, int], Tensor]:
    """(address -> bytes of each storage that forward saves for backward, its result)."""
    own = {p.untyped_storage().data_ptr() for p in (*module.parameters(), *module.buffers())}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor), torch.enable_grad():
        y = module(x)
    return saved, y
