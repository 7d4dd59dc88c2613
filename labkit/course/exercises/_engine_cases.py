"""Small models, what happens to them, and engines that are missing, fail, or are not right."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.course.exercise import handed_out
from labkit.pipeline.engines import EngineMissing

Changed = tuple[nn.Module, Tensor]
WIDE = 12
"""A weight has 144 numbers: nobody sees all of them in its first or its last bytes."""


def model_of(kind: int, dtype: str = "float32") -> nn.Module:
    """One of four small models, always with the same weights; the last one has none."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(kind)
        layers = [nn.Linear(WIDE, WIDE), nn.BatchNorm1d(WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE)]
        if kind == 1:
            layers = [nn.Linear(WIDE, WIDE), nn.ReLU(), nn.BatchNorm1d(WIDE), nn.Linear(WIDE, WIDE)]
        elif kind == 2:
            layers = [nn.Linear(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.BatchNorm1d(WIDE)]
        elif kind == 3:
            layers = [nn.ReLU(), nn.Hardtanh()]
        model = nn.Sequential(*layers).eval()
    return model.to(getattr(torch, dtype))


def sample_of(dtype: str = "float32", rows: int = 3) -> Tensor:
    """An input of theirs."""
    return torch.linspace(-1, 2, WIDE * rows, dtype=getattr(torch, dtype)).reshape(rows, WIDE)


def _weight(model: Any, sample: Tensor) -> Changed:
    model[0].weight.data[WIDE // 2, 2] += 0.5
    return model, sample


def _last_digits(model: Any, sample: Tensor) -> Changed:
    model[0].weight.data[-1, -1] += 1e-6
    return model, sample


def _swap(model: Any, sample: Tensor) -> Changed:
    weight = model[0].weight.data
    weight[0, 1], weight[2, 3] = weight[2, 3].clone(), weight[0, 1].clone()
    return model, sample


def _as_wide(model: Any, sample: Tensor) -> Changed:
    whole = {torch.float32: torch.int32, torch.float64: torch.int64}
    return model, sample.to(whole[sample.dtype])


def _last_bias(model: Any, sample: Tensor) -> Changed:
    last = [one for one in model if isinstance(one, nn.Linear)][-1]
    last.bias.data[-1] += 0.25
    return model, sample


def _statistics(model: Any, sample: Tensor) -> Changed:
    for one in model:
        if isinstance(one, nn.BatchNorm1d):
            one.running_mean += 0.5
    return model, sample


def _places(model: Any, sample: Tensor) -> Changed:
    first, last = (one for one in model if isinstance(one, nn.Linear))
    first.weight.data, last.weight.data = last.weight.data, first.weight.data
    first.bias.data, last.bias.data = last.bias.data, first.bias.data
    return model, sample


def _gelu(model: Any, sample: Tensor) -> Changed:
    at = next(n for n, one in enumerate(model) if isinstance(one, nn.ReLU))
    model[at] = nn.GELU()
    return model, sample


CHANGES: dict[str, Callable[[Any, Tensor], Changed]] = {
    "a weight": _weight,
    "a millionth in a weight": _last_digits,
    "two numbers in a weight change places": _swap,
    "the last bias": _last_bias,
    "the statistics of BatchNorm": _statistics,
    "two weights change places": _places,
    "GELU for ReLU": _gelu,
    "training mode": lambda model, sample: (model.train(), sample),
    "a smaller frame": lambda model, sample: (model, sample[:2]),
    "a turned frame": lambda model, sample: (model, sample.T.contiguous()),
    "float16 frames": lambda model, sample: (model.half(), sample.half()),
    "frames of integers as wide": _as_wide,
}
NO_LAYER = ("a turned frame", "float16 frames", "frames of integers as wide")
"""What only a model without weights can take, or what its weights would tell."""
WITHOUT_WEIGHTS = ("a smaller frame", "a copy of the model")
"""What can happen to a model without weights, too."""
SAME: dict[str, Callable[[Any, Tensor], Changed]] = {
    "a copy of the model": lambda model, sample: (model, sample),
    "other numbers in the frame": lambda model, sample: (model, sample * 2),
}


class Builders:
    """Engines of the named kinds, and how often one was asked to be built."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.calls = 0
        self.list = [self._builder(kind, n) for n, kind in enumerate(kinds)]

    def _builder(self, kind: str, number: int) -> Any:
        @handed_out
        def build(model: nn.Module, sample: Tensor) -> Any:
            self.calls += 1
            if kind == "missing":
                raise EngineMissing("it is not installed here")
            if kind == "failing":
                raise RuntimeError("it has no kernel for this layer")
            if kind == "typo":
                raise NameError("name 'modle' is not defined")
            return Engine(kind, number, model)

        return build


class Engine:
    """A copy of a model that computes; not always the same."""

    def __init__(self, kind: str, number: int, model: nn.Module) -> None:
        self.kind, self.number, self.frozen = kind, number, copy.deepcopy(model)

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            result: Tensor = self.frozen(x * 1.1 if self.kind == "scaled" else x)
        if self.kind == "inaccurate":
            return result + 0.1
        if self.kind == "nan":
            return torch.where(torch.arange(WIDE) == 2, torch.nan, result)
        if self.kind == "writes":
            x.zero_()
        return result


def drive_cache(answer: Any, kinds: tuple[str, ...], asked: tuple[str, ...]) -> dict[str, Any]:
    """Each turn: whether its result is right, how many builds there were, and who computes."""
    if comes_to_the_typo(kinds):
        return {"mistakes that came out, asked twice": _mistakes(answer, kinds)}
    builders, kept = Builders(kinds), dict[Any, Any]()
    first = model_of(0)
    model, sample = first, sample_of()
    seen: set[Any] = set()
    turns, left, all_there = [], True, True
    with torch.no_grad():
        for turn in ("first", *asked):
            model, sample = _turned(turn, first, model, sample)
            content = _content(model, sample)
            before = sample.clone()
            given = list(builders.list)
            run = answer(model, sample, given, kept)
            left = left and torch.equal(sample, before)
            all_there = all_there and given == builders.list
            seen.add(content)
            sane = [n for n, kind in enumerate(kinds) if kind in ("good", "writes")]
            needed = (sane[0] + 1 if sane else len(kinds)) * len(seen)
            result = run(sample.clone())
            turns.append(
                {
                    "right": torch.equal(result, model(sample)),
                    "builds": builders.calls,
                    "builds needed": needed,
                    "engine": run.number if isinstance(run, Engine) else "the model",
                    "engine needed": sane[0] if sane else "the model",
                }
            )
    return {"turns": turns, "inputs left": left, "builders left": all_there}


def comes_to_the_typo(kinds: tuple[str, ...]) -> bool:
    """Whether a builder with a mistake is asked: no engine before it is right."""
    return "typo" in kinds and not {"good", "writes"} & {*kinds[: kinds.index("typo")]}


def _mistakes(answer: Any, kinds: tuple[str, ...]) -> int:
    builders, kept, came_out = Builders(kinds), dict[Any, Any](), 0
    for _ in range(2):
        try:
            answer(model_of(0), sample_of(), list(builders.list), kept)
        except NameError:
            came_out += 1
    return came_out


def _turned(turn: str, first: Any, model: Any, sample: Tensor) -> Changed:
    if turn == "a copy":
        return copy.deepcopy(model), sample
    if turn == "a weight changes":
        return _weight(copy.deepcopy(model), sample)
    if turn == "a smaller frame":
        return model, sample[: max(1, len(sample) - 1)].clone()
    if turn == "the first model, trained on":
        twin = copy.deepcopy(first)
        _weight(first, sample)
        return twin, sample_of(rows=len(sample))
    return model, sample


def _content(model: nn.Module, sample: Tensor) -> Any:
    weights = [tensor.tolist() for tensor in model.state_dict().values()]
    return repr((weights, sample.shape))
