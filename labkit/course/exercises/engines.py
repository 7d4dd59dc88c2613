"""Inference engines: when two results agree, what an engine depends on, and a plan B."""

import copy
from typing import Any

import torch
from torch import Tensor

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._engine_cases import (
    CHANGES,
    NO_LAYER,
    SAME,
    WITHOUT_WEIGHTS,
    comes_to_the_typo,
    drive_cache,
    model_of,
    sample_of,
)
from labkit.course.exercises._never_right import FIRST
from labkit.pipeline.engines import agrees as right_agrees

NOTEBOOK = "5_optimization/2c_engines"

# --- agrees


def _results(rng: Rng, size: int) -> tuple[Tensor, Tensor, float]:
    right = rng.tensor((rng.randint(0, 2), rng.randint(1, 3), rng.randint(1, 2 + size)))
    kind = rng.choice(("near", "far", "nan", "shape", "dtype", "below", "one far", "bytes"))
    got, tolerance = right.clone(), rng.choice((0.0, 0.5, 1.0))
    if kind == "near":
        got = right + tolerance
    elif kind == "far":
        got = right + tolerance + 1
    elif kind == "nan" and got.numel():
        got.flatten()[rng.randrange(got.numel())] = torch.nan
    elif kind == "shape":
        got = right[:, :1]
    elif kind == "dtype":
        got = right.double()
    elif kind == "below":
        got = right - tolerance - 2
    elif kind == "bytes":
        right, tolerance = torch.full_like(right, 255, dtype=torch.uint8), 1.0
        got = torch.full_like(right, rng.choice((0, 254)))
    elif got.numel():
        got.flatten()[-1] += tolerance + 0.25
    return got, right, tolerance


agrees = Exercise(
    id="engines.agrees",
    case=_results,
    expected=lambda got, right, tolerance: right_agrees(got, right, tolerance),
    rung="warm-up",
    minutes=4,
    cases=150,
    rules=("torch may be used, not torch.allclose, torch.isclose or torch.testing",),
    banned=("torch.allclose", "torch.isclose", "torch.Tensor.allclose", "torch.testing.*",
            "labkit.*"),
    hints=(
        Hint("Return a bool of Python: `bool(...)`.", when=lambda e: isinstance(e.value, Tensor)),
        Hint("Bytes are never negative: in `uint8`, 0 - 255 is 1. Subtract in `double()`.",
             when=lambda e: e.inputs[0].dtype == e.inputs[1].dtype == torch.uint8),
        Hint("There is a NaN in `got`. It is neither larger than the tolerance nor smaller: ask "
             "whether all differences are <= tolerance.",
             when=lambda e: bool(e.inputs[0].isnan().any())),
        Hint("The shapes differ, and the subtraction broadcasts.",
             when=lambda e: e.inputs[0].shape != e.inputs[1].shape),
        Hint("The element types differ.", when=lambda e: e.inputs[0].dtype != e.inputs[1].dtype),
        Hint("The tolerance itself is allowed.", when=lambda e: e.right is True),
        "First shape and dtype, then (got.double() - right.double()).abs() <= tolerance, for all "
        "of them.",
    ),
    must_fail=("trusts NaN", "broadcasts", "ignores the element type", "without abs",
               "the mean difference", "less than the tolerance", "wraps around in bytes", FIRST),
)  # fmt: skip

# --- key_of


def _a_pair(rng: Rng, size: int, changes: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """(model, what changes, its type); without `changes`, all of them come, each at its size."""
    every = (*CHANGES, *SAME)
    change = rng.choice(changes) if changes else every[size % len(every)]
    kind = rng.randrange(4 if change in WITHOUT_WEIGHTS else 3)
    if change in NO_LAYER:
        kind = 3
    return kind, change, rng.choice(("float32", "float64"))


def _drive_key(answer: Any, kind: int, change: str, dtype: str) -> dict[str, Any]:
    """Whether the keys of a model before and after a change are the same, and what they left."""
    model, sample = model_of(kind, dtype), sample_of(dtype)
    rows = sample.clone()
    before = answer(model, sample)
    again = answer(model, sample)
    left = torch.equal(sample, rows)
    other, other_sample = {**CHANGES, **SAME}[change](copy.deepcopy(model), rows)
    modes = [layer.training for layer in other.modules()]
    intact = [(name, tensor.clone()) for name, tensor in other.state_dict().items()]
    after = answer(other, other_sample)
    same = all(torch.equal(one, other.state_dict()[name]) for name, one in intact)
    return {
        "asked twice, the same": {before: 1}.get(again) == 1,
        "the same after the change": {before: 1}.get(after) == 1,
        "model left as it was": same and modes == [layer.training for layer in other.modules()],
        "sample left as it was": left,
    }


def _right_key(kind: int, change: str, dtype: str) -> dict[str, Any]:
    return {
        "asked twice, the same": True,
        "the same after the change": change in SAME,
        "model left as it was": True,
        "sample left as it was": True,
    }


def _said(kind: int, change: str, dtype: str) -> str:
    return f"{model_of(kind, dtype)} in {dtype}; then: {change}"


key_of = Exercise(
    id="engines.key_of",
    sizes=len(CHANGES) + len(SAME) - 1,
    case=_a_pair,
    expected=_right_key,
    drive=_drive_key,
    show=_said,
    banned=("labkit.pipeline.engines.key_of", "labkit.pipeline.engines.EngineCache"),
    minutes=8,
    cases=30,
    stages=(
        Stage("weights", case=lambda rng, size: _a_pair(rng, size, (
            "a weight", "a copy of the model", "the last bias")), cases=8),
        Stage("shapes and types", case=lambda rng, size: _a_pair(rng, size, (
            "a smaller frame", "a turned frame", "float16 frames",
            "other numbers in the frame")), cases=8),
        Stage("everything"),
    ),
    hints=(
        Hint("A key has to be hashable: a string, bytes, or a tuple of such.",
             when=lambda e: e.kind == "raised" and "unhashable" in e.got),
        Hint("The caller's model and sample stay as they are, their mode too.",
             when=lambda e: not (e.value["model left as it was"]
                                 and e.value["sample left as it was"])),
        Hint("Asked twice for the same model, you gave two keys. Is something in it that changes "
             "from call to call, or a tensor?",
             when=lambda e: not e.value["asked twice, the same"]),
        Hint("A copy of the model has the same content: no id, no address.",
             when=lambda e: e.inputs[1] == "a copy of the model"),
        Hint("The numbers in the frame do not matter for the engine, only its shape and type.",
             when=lambda e: e.inputs[1] == "other numbers in the frame"),
        Hint("What a BatchNorm has counted is no parameter. It is a buffer.",
             when=lambda e: "statistics" in e.inputs[1]),
        Hint("The same weights, and another computation: `program(model, sample)` differs.",
             when=lambda e: e.inputs[1] in ("GELU for ReLU", "training mode")),
        Hint("Only the places of two numbers have changed, or the last digits of one. All the "
             "bytes count, in their order.",
             when=lambda e: e.inputs[1] in ("two numbers in a weight change places",
                                            "a millionth in a weight")),
        Hint("A frame of 12 x 3 has as many numbers as one of 3 x 12.",
             when=lambda e: e.inputs[1] == "a turned frame"),
        Hint("Two types may be equally wide.",
             when=lambda e: e.inputs[1] == "frames of integers as wide"),
        Hint("Two layers have changed places with their weights. Names and order count.",
             when=lambda e: e.inputs[1] == "two weights change places"),
        "Four things: program, names and bytes of the state, the sample's shape, its dtype.",
        "(program(model, sample), tuple((name, bytes_of(t)) for name, t in state(model)), "
        "sample.shape, sample.dtype)",
    ),
    must_fail=(
        "the class name", "the id", "the addresses", "parameters only", "the sum of the weights",
        "no program", "no shape", "no element type", "the sample's numbers", "without order",
        "a sum per weight", "prints the weights", "counts the sample's numbers",
        "the type's width", "clears the sample", "leaves training mode",
        "the first bytes of each weight", "the first and the last bytes of each weight",
    ),
)  # fmt: skip

# --- engine_with_fallback

KINDS = ("good", "missing", "failing", "inaccurate", "scaled", "nan", "writes")
"""A scaled engine is right on zeros, and nowhere else."""


def _a_history(rng: Rng, size: int, kinds: tuple[str, ...] = KINDS) -> tuple[Any, ...]:
    """(which engines there are, what is asked in turn): asked once."""
    return tuple(rng.choice(kinds) for _ in range(rng.randint(0, 2 + size // 3))), ()


def _any_history(rng: Rng, size: int) -> tuple[Any, ...]:
    """Asked several times; a mistake, nobody right, or one that writes comes at its size."""
    builders, _ = _a_history(rng, size)
    asked = tuple(rng.choice(TURNS) for _ in range(rng.randint(0, 3)))
    if size % 4 == 0:
        return (rng.choice(("missing", "failing")), "typo"), ()
    if size % 4 == 1:
        refused = tuple(rng.choice(("missing", "inaccurate", "scaled", "nan")) for _ in range(2))
        return refused, (rng.choice(("again", "a copy")), "the first model, trained on")
    if size % 4 == 2:
        return ("writes", *builders), ("a smaller frame", *asked)
    return builders, asked


TURNS = ("again", "a copy", "a weight changes", "a smaller frame", "the first model, trained on")


def _judge_engine(case: Case, got: Any) -> Any:
    builders, asked = case.inputs
    if isinstance(got, Raised):
        return Wrong("no engine is no error")
    if comes_to_the_typo(builders):
        if got["mistakes that came out, asked twice"] == 2:
            return None
        return Wrong("a mistake in a builder comes out, whenever it is asked: NameError")
    for at, turn in enumerate(got["turns"]):
        what = "first" if at == 0 else asked[at - 1]
        if not turn["right"]:
            return Wrong(f"turn {at} ({what}): the result of the model as it is now")
        if turn["builds"] != turn["builds needed"]:
            return Wrong(f"turn {at} ({what}): builders called by then", turn["builds needed"])
        if turn["engine"] != turn["engine needed"]:
            return Wrong(f"turn {at} ({what}): who computes", turn["engine needed"])
    if not got["inputs left"]:
        return Wrong("the sample stays as it was")
    if not got["builders left"]:
        return Wrong("the caller's list of builders stays as it was")
    return None


def _told(builders: tuple[str, ...], asked: tuple[str, ...]) -> str:
    return f"engines: {', '.join(builders) or 'none'}; asked: {', '.join(('first', *asked))}"


def _computed_by(evidence: Any) -> str:
    """Who gave the first wrong result."""
    if "result of the model" not in evidence.property:
        return ""
    turn = next(turn for turn in evidence.value["turns"] if not turn["right"])
    who = turn["engine"]
    return who if isinstance(who, str) else str(evidence.inputs[0][who])


def _builds(evidence: Any) -> tuple[int, int]:
    """Builders called, and needed, at the first turn where they differ."""
    turns = ((turn["builds"], turn["builds needed"]) for turn in evidence.value["turns"])
    return next(pair for pair in turns if pair[0] != pair[1])


engine_with_fallback = Exercise(
    id="engines.engine_with_fallback",
    case=_any_history,
    judge=_judge_engine,
    drive=drive_cache,
    show=_told,
    banned=("labkit.pipeline.engines.EngineCache",),
    minutes=15,
    cases=25,
    stages=(
        Stage("the first that is here", cases=8, case=lambda rng, size: _a_history(
            rng, size, ("good", "missing", "failing"))),
        Stage("only if it agrees", cases=8, case=_a_history),
        Stage("mistakes come out", cases=3, case=lambda rng, size: (("missing", "typo"), ())),
        Stage("kept by content"),
    ),
    hints=(
        Hint("A typo in a builder looks like an engine that is not there, for ever. Catch "
             "RuntimeError (EngineMissing is one), nothing else.",
             when=lambda e: "mistake" in e.property
             and e.value["mistakes that came out, asked twice"] == 0),
        Hint("The mistake came out once. You had kept something before it did: keep what you "
             "found, when you have found it.", when=lambda e: "mistake" in e.property),
        Hint("No engine was left, and you raised. Return the model itself.",
             when=lambda e: e.kind == "raised" or "no error" in e.property),
        Hint("An engine wrote into the sample. Give it a clone, and the builder too.",
             when=lambda e: "sample stays" in e.property),
        Hint("You changed the list that you were given. Go through it with `for`.",
             when=lambda e: "list of builders" in e.property),
        Hint("This engine is right on zeros only. Check it on `sample`.",
             when=lambda e: _computed_by(e) == "scaled"),
        Hint("An engine computes that does not agree with the model on `sample`.",
             when=lambda e: _computed_by(e) in ("inaccurate", "nan")),
        Hint("An engine answered that was made for another content. Is everything in its key: "
             "key_of(model, sample)?", when=lambda e: _computed_by(e) in ("good", "writes")),
        Hint("You kept the model of the first call. It was trained on, and then another model "
             "came. Keep None, and return the model you were given.",
             when=lambda e: _computed_by(e) == "the model"),
        Hint("There is a builder whose engine agrees, and no builder was called.",
             when=lambda e: "turn 0" in e.property and not _builds(e)[0]),
        Hint("A builder was called behind one whose engine agrees, or one before it was left out.",
             when=lambda e: "turn 0" in e.property and "builders called" in e.property),
        Hint("Another content came, and no builder was called. Is the sample's shape in the key?",
             when=lambda e: "builders called" in e.property and _builds(e)[0] < _builds(e)[1]),
        Hint("Builders were called again for the same content. That no engine was right is worth "
             "keeping, too.", when=lambda e: "builders called" in e.property),
        Hint("The first builder whose engine agrees, in their order.",
             when=lambda e: "who computes" in e.property),
        "If key_of(model, sample) is not in kept: look for an engine, and keep it, or None.",
        "for build in builders: try engine = build(...), then agrees(engine(sample.clone()), ...).",
    ),
    must_fail=(
        "cache key is the class name", "returns the inaccurate engine", "raises when absent",
        "ignores dynamic shapes", "catches every exception and returns a default",
        "keeps the model as its own fallback", "builds each time", "does not keep a refusal",
        "lets the engine write into the sample", "takes the last engine", "trusts NaN",
        "keeps None before it has looked", "checks on zeros", "empties the list of builders",
        "always the model",
    ),
)  # fmt: skip

EXERCISES = (agrees, key_of, engine_with_fallback)
