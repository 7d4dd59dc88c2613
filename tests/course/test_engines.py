"""Right and wrong answers to the exercises on inference engines."""

import torch

from labkit.pipeline.engines import program, state
from tests.course.answers import Answers, first_hint

answers = Answers("engines")
TOLERANCE = 1e-3

# --- agrees


@answers.right("agrees")
def agrees(got, right, tolerance=TOLERANCE):
    if (got.shape, got.dtype) != (right.shape, right.dtype):
        return False
    return bool(((got.double() - right.double()).abs() <= tolerance).all())


def alike(got, right):
    return (got.shape, got.dtype) == (right.shape, right.dtype)


def largest(got, right):
    return float((got - right).abs().max()) if got.numel() else 0.0


for why, wrong in {
    "trusts NaN": lambda g, r, t: alike(g, r) and not largest(g, r) > t,
    "broadcasts": lambda g, r, t: g.dtype == r.dtype and bool(((g - r).abs() <= t).all()),
    "ignores the element type": lambda g, r, t: (
        g.shape == r.shape and bool(((g - r).abs() <= t).all())
    ),
    "without abs": lambda g, r, t: alike(g, r) and bool((g - r <= t).all()),
    "the mean difference": lambda g, r, t: (
        alike(g, r) and (not g.numel() or bool((g - r).abs().mean() <= t))
    ),
    "wraps around in bytes": lambda g, r, t: alike(g, r) and bool(((g - r).abs() <= t).all()),
    "less than the tolerance": lambda g, r, t: alike(g, r) and bool(((g - r).abs() < t).all()),
}.items():
    answers.wrong("agrees", why)(wrong)

# --- key_of


def tensors(model, which=state):
    return tuple((name, t.detach().numpy().tobytes()) for name, t in which(model))


@answers.right("key_of")
def key_of(model, sample):
    return program(model, sample), tensors(model), sample.shape, sample.dtype


for why, wrong in {
    "the class name": lambda m, x: (type(m).__name__, x.shape, x.dtype),
    "the id": lambda m, x: (id(m), program(m, x), tensors(m), x.shape, x.dtype),
    "the addresses": lambda m, x: (
        program(m, x), tuple(t.data_ptr() for _, t in state(m)), x.shape, x.dtype
    ),
    "parameters only": lambda m, x: (
        program(m, x), tensors(m, lambda m: m.named_parameters()), x.shape, x.dtype
    ),
    "the sum of the weights": lambda m, x: (
        program(m, x), sum(float(t.detach().double().sum()) for _, t in state(m)), x.shape, x.dtype
    ),
    "no program": lambda m, x: (tensors(m), x.shape, x.dtype),
    "no shape": lambda m, x: (program(m, x), tensors(m), x.dtype),
    "no element type": lambda m, x: (program(m, x), tensors(m), x.shape),
    "the sample's numbers": lambda m, x: (program(m, x), tensors(m), x.dtype, str(x.tolist())),
    "without order": lambda m, x: (
        program(m, x), frozenset(data for _, data in tensors(m)), x.shape, x.dtype
    ),
}.items():  # fmt: skip
    answers.wrong("key_of", why)(wrong)

for why, wrong in {
    "a sum per weight": lambda m, x: (
        program(m, x), tuple(float(t.detach().double().sum()) for _, t in state(m)),
        x.shape, x.dtype,
    ),
    "prints the weights": lambda m, x: (program(m, x), str(m.state_dict()), x.shape, x.dtype),
    "counts the sample's numbers": lambda m, x: (program(m, x), tensors(m), x.numel(), x.dtype),
    "the first bytes of each weight": lambda m, x: (
        program(m, x), tuple((name, data[:64]) for name, data in tensors(m)), x.shape, x.dtype
    ),
    "the first and the last bytes of each weight": lambda m, x: (
        program(m, x), tuple((name, data[:64], data[-64:]) for name, data in tensors(m)),
        x.shape, x.dtype,
    ),
    "the type's width": lambda m, x: (program(m, x), tensors(m), x.shape, x.element_size()),
    "clears the sample": lambda m, x: (key_of(m, x), x.zero_() is None),
    "leaves training mode": lambda m, x: (key_of(m, x), m.eval() is None),
}.items():  # fmt: skip
    answers.wrong("key_of", why)(wrong)

# --- engine_with_fallback


def compile_for(
    model, sample, builders, kept, key=key_of, checks=agrees, catches=RuntimeError, keeps=True,
    refusals=True, clones=True, look=torch.clone, live=False, last=False, raises=False,
    early=False,
):  # fmt: skip
    """The right one; each switch takes one thing out of it."""
    content = key(model, sample)
    if content not in kept or not keeps or (kept[content] is None and not refusals):
        if early:
            kept[content] = None
        found, right = model if live else None, model(look(sample))
        for build in builders[::-1] if last else builders:
            try:
                engine = build(model, sample)
                if checks(engine(look(sample) if clones else sample), right):
                    found = engine
                    break
            except catches:
                if raises:
                    raise
        kept[content] = found
    return kept[content] or model


answers.right("engine_with_fallback")(compile_for)


@answers.wrong("engine_with_fallback", "empties the list of builders")
def empties(model, sample, builders, kept):
    found = compile_for(model, sample, builders, kept)
    builders.clear()
    return found


answers.wrong("engine_with_fallback", "always the model")(lambda model, *rest: model)

for why, switches in {
    "cache key is the class name": {"key": lambda m, x: (type(m).__name__, x.shape)},
    "returns the inaccurate engine": {"checks": lambda got, right: True},
    "raises when absent": {"raises": True},
    "ignores dynamic shapes": {"key": lambda m, x: (program(m, x), tensors(m))},
    "catches every exception and returns a default": {"catches": Exception},
    "keeps the model as its own fallback": {"live": True},
    "builds each time": {"keeps": False},
    "does not keep a refusal": {"refusals": False},
    "lets the engine write into the sample": {"clones": False},
    "takes the last engine": {"last": True},
    "keeps None before it has looked": {"early": True},
    "checks on zeros": {"look": torch.zeros_like},
    "trusts NaN": {"checks": lambda got, right: not largest(got, right) > TOLERANCE},
}.items():
    answers.wrong("engine_with_fallback", why)(
        lambda model, sample, builders, kept, switches=switches: compile_for(
            model, sample, builders, kept, **switches
        )
    )

test_answers = answers.tests()


def test_who_never_asks_a_builder_is_told_so():
    exercise = answers.exercises["engine_with_fallback"]
    assert "no builder was called" in first_hint(exercise, lambda model, *rest: model)


def test_a_key_may_be_made_of_strings_alone():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert hash(key_of(model, torch.ones(1, 2))) == hash(key_of(model, torch.ones(1, 2)))
