"""A norm inside the layer that it reads: the weights of one pair, and which pairs of a network."""

import math
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._graph_steps import Reads, drawn
from labkit.course.exercises._never_right import CHANGES, FIRST

Layer = tuple[list[list[float]], list[float] | None]
Norm = tuple[list[float], list[float], list[float], list[float], float]


def _number(rng: Rng) -> float:
    return rng.randint(-12, 12) / 4


def _layer(rng: Rng, channels: int, no_bias: float) -> Layer:
    weight = [[_number(rng) for _ in range(2)] for _ in range(channels)]
    return weight, None if rng.chance(no_bias) else [_number(rng) for _ in range(channels)]


def _norm(rng: Rng, channels: int) -> Norm:
    gamma, beta, mean = ([_number(rng) for _ in range(channels)] for _ in range(3))
    variance = [rng.choice((0.0, 0.25, 1.0, 9.0)) for _ in range(channels)]
    return gamma, beta, mean, variance, rng.choice((1e-5, 0.25))


def _in_one(layer: Layer, norm: Norm) -> Layer:
    """The weights of both."""
    (weight, bias), (gamma, beta, mean, variance, eps) = layer, norm
    scale = [g / math.sqrt(v + eps) for g, v in zip(gamma, variance, strict=True)]
    moved = [b - m for b, m in zip(bias or [0.0] * len(mean), mean, strict=True)]
    new = [[w * s for w in row] for row, s in zip(weight, scale, strict=True)]
    return new, [m * s + b for m, s, b in zip(moved, scale, beta, strict=True)]


@handed_out
def _tensors(values: Any) -> list[Any]:
    """Lists as float64 tensors; rows become a weight (output channel, input channel, 1, 1)."""
    made = [torch.tensor(v).double() if isinstance(v, list) else v for v in values]
    return [v[:, :, None, None] if getattr(v, "ndim", 0) == 2 else v for v in made]


@handed_out
def _rounded(value: Any) -> Any:
    """Numbers as 9 digits, so that the order of the arithmetic does not matter."""
    if isinstance(value, torch.Tensor):
        return _rounded((value[:, :, 0, 0] if value.ndim == 4 else value).tolist())
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return round(value, 9) + 0.0 if isinstance(value, (int, float)) else value


@handed_out
def _answered(answer: Any, given: list[Any]) -> Any:
    """What the answer makes of it, rounded.

    Raises   ValueError   what it was given is another one afterwards
    """
    before = _rounded(given)
    found = _rounded(answer(*given))
    if _rounded(given) != before:
        raise ValueError("the answer changed a layer or a norm that it was given")
    return found


def _writes(evidence: Evidence) -> bool:
    return evidence.kind == "raised" and "that it was given" in evidence.got


WRITES = Hint("The layers and the norms belong to the caller: they are as before when you return. "
              "`w * scale` is a new tensor, `w *= scale` writes into the old one.",
              when=_writes)  # fmt: skip


# --- folded


def _pair(channels: int, no_bias: float = 0.0) -> Any:
    def case(rng: Rng, size: int) -> tuple[Any, ...]:
        count = rng.randint(1, channels)
        return (*_layer(rng, count, no_bias), *_norm(rng, count))

    return case


def _right_pair(w: Any, b: Any, *norm: Any) -> Any:
    return _rounded(_in_one((w, b), norm))


def _drive_pair(answer: Any, *inputs: Any) -> Any:
    return _answered(answer, _tensors(inputs))


def _parts(e: Any) -> tuple[bool, bool]:
    """Which of weight and bias are right."""
    if not isinstance(e.value, list) or len(e.value) != 2:
        return False, False
    return e.value[0] == e.right[0], e.value[1] == e.right[1]


folded = Exercise(
    id="fusion_and_inplace.folded",
    case=_pair(4, 0.4),
    expected=_right_pair,
    drive=_drive_pair,
    stages=(
        Stage("one channel", case=_pair(1), cases=20),
        Stage("channels", case=_pair(4), cases=30),
        Stage("no bias"),
    ),
    cases=50,
    minutes=6,
    hints=(
        WRITES,
        Hint("A `b` of None counts as 0. The mean is taken away all the same.",
             when=lambda e: e.inputs[1] is None),
        Hint("The weight is right, the bias is not. The norm takes `mean` away from `y`, so from "
             "`b`; then it multiplies, and adds `beta`.",
             when=lambda e: _parts(e) == (True, False)),
        Hint("`gamma` is divided by the square root of `variance + eps`; `eps` is under the root.",
             when=lambda e: e.stage == "one channel" and not _parts(e)[0]),
        Hint("The bias is right, the weight is not. The first dimension of `w` counts the output "
             "channels: `scale[:, None, None, None]` has one number for each.",
             when=lambda e: _parts(e) == (False, True)),
        "scale = gamma / (variance + eps).sqrt(): one number per output channel.",
        "The weight is `w * scale[:, None, None, None]`, the bias `(b - mean) * scale + beta`.",
    ),
    must_fail=("ignores epsilon", "adds epsilon to the root", "forgets the root",
               "scales the weights by column", "forgets the mean",
               "forgets the mean of a layer without a bias", "adds beta before it scales",
               CHANGES),
)  # fmt: skip


# --- fold_norms

Network = tuple[Reads, dict[str, Layer], dict[str, tuple[Any, ...]]]


def _network(rng: Rng, size: int, others: float = 0.0, training: float = 0.0) -> Network:
    """Convolutions, norms and ReLUs; a norm reads a convolution, or what is none, even alone."""
    reads: Reads = {"x": []}
    layers: dict[str, Layer] = {}
    norms: dict[str, tuple[Any, ...]] = {}
    last = "x"
    for place in range(1 + size // 3):
        channels = rng.randint(1, 3)
        conv, norm, relu = f"conv{place}", f"norm{place}", f"relu{place}"
        reads[conv] = [last]
        layers[conv] = _layer(rng, channels, 0.2)
        source = last if last != "x" and rng.chance(others / 2) else conv
        reads[norm] = [source]
        norms[norm] = (*_norm(rng, channels), rng.chance(training))
        reads[relu] = [norm]
        last = relu
        if rng.chance(others / 2):
            last = f"again{place}"
            reads[last] = [relu]
            norms[last] = (*_norm(rng, channels), rng.chance(training))
        if rng.chance(others):
            last = f"add{place}"
            reads[last] = rng.sample([relu, conv], 2)
    reads["result"] = [last]
    return reads, layers, norms


def _right_network(reads: Reads, layers: dict[str, Layer], norms: dict[str, Any]) -> Any:
    done = {}
    for name, (*numbers, training) in norms.items():
        (layer,) = reads[name]
        readers = {one for one, inputs in reads.items() if layer in inputs}
        if layer in layers and readers == {name} and not training:
            gamma, beta, mean, variance, eps = numbers
            done[name] = _in_one(layers[layer], (gamma, beta, mean, variance, eps))
    return _rounded(done)


def _drive_network(answer: Any, reads: Any, layers: Any, norms: Any) -> Any:
    made = [{name: tuple(_tensors(one)) for name, one in each.items()} for each in (layers, norms)]
    return _answered(answer, [reads, *made])


def _network_picture(case: Any, got: Any, right: Any) -> Any:
    names = {**got, **right} if isinstance(got, dict) else right
    wrong = [
        name for name in names if not isinstance(got, dict) or got.get(name) != right.get(name)
    ]
    return drawn(case.inputs[0], wrong)


def _more(e: Any, *, asked: Any) -> bool:
    """True when a norm was folded that must stay, and it is one that is asked for."""
    if not isinstance(e.value, dict):
        return False
    reads, layers, norms = e.inputs
    return any(asked(name, reads[name][0], layers, norms) for name in e.value.keys() - e.right)


fold_norms = Exercise(
    id="fusion_and_inplace.fold_norms",
    case=lambda rng, size: _network(rng, size, others=0.3, training=0.3),
    expected=_right_network,
    drive=_drive_network,
    stages=(
        Stage("one pair", case=lambda rng, size: _network(rng, 0), cases=20),
        Stage("readers", case=lambda rng, size: _network(rng, size, others=0.5), cases=40),
        Stage("training"),
    ),
    cases=60,
    sizes=9,
    minutes=7,
    hints=(
        WRITES,
        Hint("A norm may read something that is no layer: ask `layers` before you take from it.",
             when=lambda e: e.kind == "raised" and "KeyError" in e.got),
        Hint("The keys are the names of norms: {got} came back.",
             when=lambda e: isinstance(e.value, dict) and not e.value.keys() <= e.inputs[2].keys()),
        Hint("You folded a norm that trains.",
             when=lambda e: _more(e, asked=lambda name, layer, layers, norms: norms[name][-1])),
        Hint("You folded a norm that does not read a layer.",
             when=lambda e: _more(e, asked=lambda name, layer, layers, norms: layer not in layers)),
        Hint("You folded a norm whose layer has another reader: `only_reader` tells.",
             when=lambda e: _more(e, asked=lambda *_: True)),
        Hint("You left a norm alone that may be folded.",
             when=lambda e: isinstance(e.value, dict) and bool(e.right.keys() - e.value.keys())),
        "For each norm three questions: is `reads[name][0]` in `layers`, is the norm its only "
        "reader, is `training` False?",
        "The layer's name is `reads[name][0]`; then `folded(*layers[layer], *numbers)`.",
    ),
    must_fail=("matches by name order", "takes all that is read for a layer",
               "returns the layers' names", "folds shared intermediates", "ignores train mode",
               CHANGES, FIRST),
    picture=_network_picture,
)  # fmt: skip
