"""Fusion and in place: who else reads it, weights that hold a norm, memory that may be reused."""

import math
from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._graph_steps import (
    Reads,
    drawn,
    last_read,
    only_reader,
    pointwise_codegen,
)
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

NOTEBOOK = "4_vision_low_level/7_fusion_and_inplace"
FIRST = "remembers the answer of the first random case and returns it for all later cases"

# --- fold_norms

Layer = tuple[list[list[float]], list[float] | None]
Norm = dict[str, Any]


def _a_network(rng: Rng, size: int) -> tuple[Reads, dict[str, Layer], dict[str, Norm]]:
    return _network(rng, size, others=0.3, training=0.3, missing=0.3)


def _network(
    rng: Rng, size: int, others: float = 0.0, training: float = 0.0, missing: float = 0.0
) -> tuple[Reads, dict[str, Layer], dict[str, Norm]]:
    """Convolutions, norms and ReLUs; each norm reads a convolution, another norm or the input."""
    reads: Reads = {"x": []}
    layers: dict[str, Layer] = {}
    norms: dict[str, Norm] = {}
    last = "x"
    for place in range(1 + size // 3):
        channels = rng.randint(1, 3)
        conv, norm, relu = f"conv{place}", f"norm{place}", f"relu{place}"
        reads[conv] = [last]
        layers[conv] = _layer(rng, channels, missing)
        source = last if last != "x" and rng.chance(others / 2) else conv
        reads[norm] = [source]
        norms[norm] = _norm(rng, channels, training, missing)
        reads[relu] = [norm]
        last = relu
        if rng.chance(others):
            last = f"add{place}"
            reads[last] = rng.sample([relu, conv], 2)
    reads["result"] = [last]
    return reads, layers, norms


def _layer(rng: Rng, channels: int, missing: float) -> Layer:
    weight = [[_number(rng) for _ in range(2)] for _ in range(channels)]
    return weight, None if rng.chance(missing) else [_number(rng) for _ in range(channels)]


def _norm(rng: Rng, channels: int, training: float, missing: float) -> Norm:
    plain = rng.chance(missing)
    return {
        "gamma": None if plain else [_number(rng) for _ in range(channels)],
        "beta": None if plain else [_number(rng) for _ in range(channels)],
        "mean": [_number(rng) for _ in range(channels)],
        "variance": [rng.choice((0.0, 0.25, 1.0, 9.0)) for _ in range(channels)],
        "epsilon": rng.choice((1e-5, 0.25)),
        "training": rng.chance(training),
    }


def _number(rng: Rng) -> float:
    return rng.randint(-12, 12) / 4


def _folded(reads: Reads, layers: dict[str, Layer], norms: dict[str, Norm]) -> Any:
    done = {}
    for name, norm in norms.items():
        (layer,) = reads[name]
        readers = {one for one, inputs in reads.items() if layer in inputs}
        if layer not in layers or readers != {name} or norm["training"]:
            continue
        weight, bias = layers[layer]
        count = len(weight)
        ones, zeros = [1.0] * count, [0.0] * count
        scale = [
            gamma / math.sqrt(variance + norm["epsilon"])
            for gamma, variance in zip(norm["gamma"] or ones, norm["variance"], strict=True)
        ]
        new_bias = [
            (b - mean) * s + beta
            for b, mean, s, beta in zip(
                bias or zeros, norm["mean"], scale, norm["beta"] or zeros, strict=True
            )
        ]
        new = [[w * s for w in row] for row, s in zip(weight, scale, strict=True)]
        done[name] = (new, new_bias)
    return _rounded(done)


@handed_out
def _rounded(value: Any) -> Any:
    """Numbers as 9 digits, so that the order of the arithmetic does not matter."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return round(value, 9) + 0.0 if isinstance(value, (int, float)) else value


def _drive_fold(answer: Any, *inputs: Any) -> Any:
    return _rounded(answer(*inputs))


def _fold_picture(case: Any, got: Any, right: Any) -> Any:
    names = {**got, **right} if isinstance(got, dict) else right
    wrong = [
        name for name in names if not isinstance(got, dict) or got.get(name) != right.get(name)
    ]
    return drawn(case.inputs[0], wrong)


def _has(part: str) -> Any:
    return lambda e: (
        isinstance(e.value, dict)
        and bool(
            {"more": e.value.keys() - e.right.keys(), "fewer": e.right.keys() - e.value.keys()}[
                part
            ]
        )
    )


fold_norms = Exercise(
    id="fusion_and_inplace.fold_norms",
    case=_a_network,
    expected=_folded,
    drive=_drive_fold,
    stages=(
        Stage("one pair", case=lambda rng, size: _network(rng, 0), cases=20),
        Stage("nothing missing", case=lambda rng, size: _network(rng, size), cases=20),
        Stage("None", case=lambda rng, size: _network(rng, size, missing=0.5), cases=20),
        Stage("readers", case=lambda rng, size: _network(rng, size, others=0.5), cases=30),
        Stage("training"),
    ),
    cases=80,
    sizes=9,
    minutes=12,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("You folded a norm that must stay. Who reads its layer? Is it a layer at all? Is the "
             "norm in training?", when=_has("more")),
        Hint("You left a norm alone that may be folded.", when=_has("fewer")),
        Hint("A gamma that is None is 1, a beta or a bias that is None is 0.", stage="None"),
        "scale = gamma / sqrt(variance + epsilon), one number per channel.",
        "Each row of the weights times its scale; the bias is (bias - mean) * scale + beta.",
    ),
    must_fail=(
        "matches by name order", "folds shared intermediates", "ignores epsilon",
        "ignores train mode", "forgets the mean of a layer without a bias",
        "scales the weights by column", FIRST,
        "returns the right value but changes one of its inputs",
    ),
    picture=_fold_picture,
)  # fmt: skip


# --- reinplace

Program = tuple[list[tuple[str, str, list[str]]], list[str], dict[str, int]]


def _a_program(rng: Rng, size: int) -> Program:
    return _program(rng, size, views=0.3, callers=0.5, sizes=0.3)


def _program(
    rng: Rng, size: int, views: float = 0.0, callers: float = 0.0, sizes: float = 0.0
) -> Program:
    """Steps that make, view and combine values; without `callers` nobody reads the input again."""
    counts = {"x": rng.choice((4, 6))}
    steps: list[tuple[str, str, list[str]]] = [("x", "input", []), ("t0", "op", ["x"])]
    counts["t0"] = counts["x"]
    for place in range(1, 2 + size):
        name = f"t{place}"
        known = [one for one, _, _ in steps if callers or one != "x"]
        first = known[-1] if rng.chance(0.6) else rng.choice(known)
        if rng.chance(views):
            steps.append((name, "view", [first]))
            counts[name] = 1 if rng.chance(sizes) else counts[first]
            continue
        inputs = [first]
        if rng.chance(0.5):
            fits = [one for one in known if sizes or counts[one] <= counts[first]]
            inputs.append(rng.choice(fits))
        steps.append((name, "op", inputs))
        counts[name] = max(counts[one] for one in inputs)
    results = [steps[-1][0]]
    if rng.chance(0.3):
        results.append(rng.choice([one for one, _, _ in steps]))
    return steps, results, counts


def _in_place(steps: Any, results: list[str], sizes: dict[str, int]) -> list[str]:
    memory: dict[str, str] = {}
    done = []
    callers = {name for name, kind, _ in steps if kind == "input"}
    reads = [(place, one) for place, step in enumerate(steps) for one in step[2]]
    reads += [(len(steps), one) for one in results]
    for place, (name, kind, inputs) in enumerate(steps):
        memory[name] = memory[inputs[0]] if kind == "view" else name
        if kind != "op":
            continue
        first, mine = inputs[0], memory[inputs[0]]
        needed = any(
            memory.get(one) == mine and (at > place or (at == place and one != first))
            for at, one in reads
        )
        if mine not in callers and not needed and sizes[name] == sizes[first]:
            done.append(name)
    return done


def _inplace_picture(case: Any, got: Any, right: Any) -> Any:
    steps, results, _ = case.inputs
    reads = {name: inputs for name, _, inputs in steps} | {"result": results}
    labels = {name: f"{name} = {kind}" for name, kind, _ in steps}
    yours = got if isinstance(got, list) else []
    return drawn(reads, sorted(set(yours) ^ set(right)), labels)


reinplace = Exercise(
    id="fusion_and_inplace.reinplace",
    case=_a_program,
    expected=_in_place,
    stages=(
        Stage("later readers", case=lambda rng, size: _program(rng, size), cases=40),
        Stage("the caller's", case=lambda rng, size: _program(rng, size, callers=1), cases=40),
        Stage("views", case=lambda rng, size: _program(rng, size, views=0.4), cases=60),
        Stage("sizes"),
    ),
    cases=200,
    sizes=8,
    minutes=12,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Views of one memory are one set. Give each value the name of its memory, and ask for "
             "reads of that.", stage="views"),
        Hint("x belongs to the caller: nobody may write over it.",
             when=lambda e: any(name in e.value and name not in e.right and inputs[0] == "x"
                                for name, _, inputs in e.inputs[0] if inputs)),
        Hint("You wrote over something that is read later, maybe by another name.",
             when=lambda e: isinstance(e.value, list) and bool({*e.value} - {*e.right})),
        Hint("A step that reads a value for the last time may write over it.",
             when=lambda e: isinstance(e.value, list) and bool({*e.right} - {*e.value})),
        "What is returned is read after the last step.",
    ),
    must_fail=(
        "single-consumer rule", "ignores views", "writes graph inputs", "ignores the size",
        "forgets what is returned", "overlooks that the step itself reads another view", FIRST,
    ),
    picture=_inplace_picture,
)  # fmt: skip

EXERCISES = (only_reader, fold_norms, pointwise_codegen, last_read, reinplace)
