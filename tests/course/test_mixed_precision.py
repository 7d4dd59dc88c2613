"""Right and wrong answers to the exercises on halves, scales and casts."""

import math

import pytest
import torch

from labkit.course.exercises import find
from labkit.course.exercises._cast_regions import (
    FLOAT32,
    LOWER,
    WIDEST,
    finished_region,
    mini_autocast,
)
from labkit.course.exercises._never_right import CHANGES
from labkit.course.exercises.mixed_precision import finished_scaler, gradients
from tests.course.answers import Answers, first_hint

answers = Answers("mixed_precision")
Scaler, Region = finished_scaler(), finished_region()
WIDE = torch.float64

# --- stands_still


@answers.right("stands_still")
def stands_still(weight, step):
    half = torch.tensor(weight, dtype=torch.float16)
    return bool(half + torch.tensor(step, dtype=torch.float16) == half)


@answers.right("stands_still")
def stands_still_by_a_number(weight, step):
    half = torch.tensor(weight).half()
    return (half + step).item() == half.item()


@answers.wrong("stands_still", "compares with the weight as it came")
def with_the_weight_as_it_came(weight, step):
    return torch.tensor(weight + step).half().item() == weight


@answers.wrong("stands_still", "adds to the weight as it came")
def to_the_weight_as_it_came(weight, step):
    half = torch.tensor(weight).half()
    return bool((torch.tensor(weight) + torch.tensor(step).half()).half() == half)


@answers.wrong("stands_still", "adds the step as it came")
def the_step_as_it_came(weight, step):
    half = torch.tensor(weight).half()
    return bool((half.float() + step).half() == half)


@answers.wrong("stands_still", "calls no step of half the gap lost")
def half_is_never_lost(weight, step):
    half, step = torch.tensor(weight).half(), torch.tensor(step).half()
    towards = torch.nextafter(half, half + step.sign() * 100)
    return bool(step.abs() < (towards - half).abs() / 2)


@answers.wrong("stands_still", "adds in float32")
def in_float32(weight, step):
    return bool(torch.tensor(weight) + step == torch.tensor(weight))


@answers.wrong("stands_still", "takes the gap near 1 for all weights")
def one_gap(weight, step):
    return abs(step) < 2**-11


@answers.wrong("stands_still", "ignores the sign")
def no_sign(weight, step):
    return bool(torch.tensor(weight).half() + abs(step) * 1.5 == torch.tensor(weight).half())


@answers.wrong("stands_still", "takes the gap above for steps down")
def gap_above(weight, step):
    half = torch.tensor(weight).half().abs()
    gap = (torch.nextafter(half, half * 2) - half).item()
    if abs(step) == gap / 2:
        return stands_still(weight, step)
    return abs(step) < gap / 2


@answers.wrong("stands_still", "calls every step of half the gap lost")
def half_is_lost(weight, step):
    half, step = torch.tensor(weight).half(), torch.tensor(step).half()
    towards = torch.nextafter(half, half + step.sign() * 100)
    return bool(step.abs() <= (towards - half).abs() / 2)


@answers.wrong("stands_still", "returns a tensor")
def as_tensor(weight, step):
    half = torch.tensor(weight).half()
    return half + step == half


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (as_tensor, "Python bool"),
        (gap_above, "power of two"),
        (half_is_never_lost, "half of the gap"),
        (with_the_weight_as_it_came, "weight is no float16"),
        (to_the_weight_as_it_came, "weight is no float16"),
        (the_step_as_it_came, "step is no float16"),
    ],
)
def test_the_first_hint_of_stands_still_is_about_the_mistake(answer, said):
    assert said in first_hint(find("mixed_precision.stands_still"), answer)


# --- best_scale


@answers.right("best_scale")
def best_scale(grads):
    scale = 2.0**60
    while max(abs(g) for g in grads) * scale > 65504:
        scale /= 2
    return scale


@answers.wrong("best_scale", "forgets the sign")
def signed(grads):
    scale = 2.0**60
    while max(grads) * scale > 65504:
        scale /= 2
    return scale


@answers.wrong("best_scale", "forgets the sign")
def signed_logarithm(grads):
    return 2.0 ** math.floor(math.log2(65504 / max(grads)))


@answers.wrong("best_scale", "looks at the smallest gradient")
def smallest(grads):
    return best_scale([min(grads, key=abs)])


@answers.wrong("best_scale", "looks at the first gradient")
def first(grads):
    return best_scale(grads[:1])


@answers.wrong("best_scale", "one doubling too many")
def too_many(grads):
    return 2 * best_scale(grads)


@answers.wrong("best_scale", "is no power of two")
def exact(grads):
    return 65504 / max(abs(g) for g in grads)


@answers.wrong("best_scale", "never goes below 1")
def at_least_one(grads):
    return max(1.0, best_scale(grads))


@answers.wrong("best_scale", "lets a little more than 65504 pass")
def until_infinite(grads):
    scale = 2.0**60
    while max(abs(g) for g in grads) * scale >= 65520:
        scale /= 2
    return scale


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (at_least_one, "less than 1"),
        (until_infinite, "65520"),
        (signed, "negative"),
        (signed_logarithm, "negative"),
    ],
)
def test_the_first_hint_of_best_scale_is_about_the_mistake(answer, said):
    assert said in first_hint(find("mixed_precision.best_scale"), answer)


# --- grad_scaler


class Mine(Scaler):
    """Written another way: the state is a set and a flag."""

    def unscale(self, optimizer):
        if optimizer not in self.found:
            grads = gradients(optimizer)
            self.found[optimizer] = not all(bool(torch.isfinite(g).all()) for g in grads)
            for grad in grads:
                grad.div_(self.value)


answers.right("grad_scaler")(Scaler)
answers.right("grad_scaler")(Mine)


@answers.wrong("grad_scaler", "unscales twice")
class Twice(Scaler):
    def unscale(self, optimizer):
        found = self.found.pop(optimizer, False)
        super().unscale(optimizer)
        self.found[optimizer] |= found


@answers.wrong("grad_scaler", "steps on infinity")
class Steps(Scaler):
    def step(self, optimizer):
        self.unscale(optimizer)
        optimizer.step()


@answers.wrong("grad_scaler", "checks only the first parameter")
class FirstOnly(Scaler):
    def unscale(self, optimizer):
        if optimizer not in self.found:
            bad = not bool(gradients(optimizer)[0].isfinite().all())
            super().unscale(optimizer)
            self.found[optimizer] = bad


@answers.wrong("grad_scaler", "grows every step")
class Grows(Scaler):
    def update(self):
        self.good = self.interval - 1
        super().update()


@answers.wrong("grad_scaler", "does not start to count again after an infinity")
class CountsOn(Scaler):
    def update(self):
        good, bad = self.good, any(self.found.values())
        super().update()
        self.good = good if bad else self.good


@answers.wrong("grad_scaler", "one optimizer's infinity stops the other")
class AllStop(Scaler):
    def step(self, optimizer):
        self.unscale(optimizer)
        if not any(self.found.values()):
            optimizer.step()


@answers.wrong("grad_scaler", "looks for infinities after the last optimizer only")
class LastOnly(Scaler):
    def update(self):
        self.found = dict(list(self.found.items())[-1:])
        super().update()


@answers.wrong("grad_scaler", "forgets that NaN is no infinity")
class NoNan(Scaler):
    def unscale(self, optimizer):
        if optimizer not in self.found:
            bad = any(bool(g.isinf().any()) for g in gradients(optimizer))
            super().unscale(optimizer)
            self.found[optimizer] = bad


@answers.wrong("grad_scaler", "loses state on reload")
class Forgets(Scaler):
    def load(self, state):
        pass


@answers.wrong("grad_scaler", "saves the scale alone")
class ScaleOnly(Scaler):
    def state(self):
        return self.value, 0


@answers.wrong("grad_scaler", "leaves NaN where it divided")
class DividesByZero(Scaler):
    def unscale(self, optimizer):
        super().unscale(optimizer)
        for grad in gradients(optimizer):
            grad.mul_(math.nan)


@answers.wrong("grad_scaler", "keeps what it found")
class KeepsFound(Scaler):
    def update(self):
        found = self.found
        super().update()
        self.found = found


# --- mini_autocast

answers.right("mini_autocast")(Region)


@answers.right("mini_autocast")
class ByIds:
    """Written another way: keyed by id, the weight kept beside its cast."""

    def __init__(self):
        self.kept, self.inside = {}, []

    def begin(self, enabled):
        self.inside.append(enabled)

    def target(self, name, tensors):
        if name in LOWER:
            return torch.float16
        wide = name in WIDEST and torch.float32 in [t.dtype for t in tensors]
        if name in FLOAT32 or wide:
            return torch.float32
        return torch.float16 if name in WIDEST else None

    def cast(self, name, tensors):
        to = self.target(name, tensors) if all(self.inside[-1:]) else None
        return [self.one(t, to) for t in tensors]

    def one(self, tensor, to):
        if to is None or tensor.dtype not in (torch.float16, torch.float32) or tensor.dtype == to:
            return tensor
        if to == torch.float32 or not (tensor.requires_grad and tensor.is_leaf):
            return tensor.to(to)
        if id(tensor) not in self.kept:
            self.kept[id(tensor)] = tensor, tensor.to(to)
        return self.kept[id(tensor)][1]

    def end(self):
        if not self.inside:
            self.kept.clear()
        del self.inside[-1:]


@answers.wrong("mini_autocast", "casts everything")
class Everything(Region):
    def cast(self, name, tensors):
        return super().cast("mm" if name in ("add", "relu") else name, tensors)


@answers.wrong("mini_autocast", "cache survives the region")
class Survives(Region):
    def end(self):
        del self.inner[-1:]


@answers.wrong("mini_autocast", "nested disable ignored")
class AlwaysOn(Region):
    def begin(self, enabled):
        super().begin(True)


@answers.wrong("mini_autocast", "stays off when the inner region ends")
class StaysOff(Region):
    def end(self):
        if self.inner and not self.inner[-1]:
            return
        super().end()


@answers.wrong("mini_autocast", "an inner region's end drops the casts")
class InnerDrops(Region):
    def end(self):
        del self.inner[-1:]
        self.kept = {}


@answers.wrong("mini_autocast", "the innermost that was switched off decides for all")
class OffInside(Region):
    def begin(self, enabled):
        super().begin(enabled and all(self.inner))


@answers.wrong("mini_autocast", "keeps what is no weight")
class KeepsAll(Region):
    def _one(self, tensor, to):
        if tensor.dtype == to:
            return tensor
        return self.kept.setdefault((id(tensor), to), tensor.to(to))


@answers.wrong("mini_autocast", "keeps what was computed from a weight")
class KeepsComputed(Region):
    def _one(self, tensor, to):
        if to != torch.float16 or tensor.dtype == to or not tensor.requires_grad:
            return tensor.to(to)
        return self.kept.setdefault(tensor, tensor.to(to))


@answers.wrong("mini_autocast", "keeps a cast without a gradient")
class Detached(Region):
    def _one(self, tensor, to):
        kept = tensor.requires_grad and tensor.is_leaf and to == torch.float16
        if not kept or tensor.dtype == to:
            return tensor.to(to)
        return self.kept.setdefault(tensor, tensor.detach().to(to))


@answers.wrong("mini_autocast", "keeps a cast that backward does not leave")
class ALeafOfItsOwn(Region):
    def _one(self, tensor, to):
        kept = tensor.requires_grad and tensor.is_leaf and to == torch.float16
        if not kept or tensor.dtype == to:
            return tensor.to(to)
        return self.kept.setdefault(tensor, tensor.detach().to(to).requires_grad_())


@answers.wrong("mini_autocast", "casts a weight each time")
class EachTime(Region):
    def _one(self, tensor, to):
        return tensor.to(to)


@answers.wrong("mini_autocast", "makes the cast again after a write")
class Fresh(Region):
    def _one(self, tensor, to):
        weight = tensor.requires_grad and tensor.is_leaf
        if to != torch.float16 or tensor.dtype == to or not weight:
            return tensor.to(to)
        kept = self.kept.get(tensor)
        if kept is None or kept[0] != tensor._version:
            kept = self.kept[tensor] = tensor._version, tensor.to(to)
        return kept[1]


@answers.wrong("mini_autocast", "integers cast")
class Integers(Region):
    def cast(self, name, tensors):
        made = super().cast(name, tensors)
        return [t.half() if name in LOWER and t.dtype == torch.int64 else t for t in made]


@answers.wrong("mini_autocast", "casts float64, too")
class Doubles(Region):
    def cast(self, name, tensors):
        made, on = super().cast(name, tensors), all(self.inner[-1:])
        return [t.half() if on and name in LOWER and t.dtype == WIDE else t for t in made]


@answers.wrong("mini_autocast", CHANGES)
class IntoTheList(Region):
    def cast(self, name, tensors):
        tensors[:] = super().cast(name, tensors)
        return tensors


@answers.wrong("mini_autocast", CHANGES)
class IntoTheTensors(Region):
    def cast(self, name, tensors):
        made = super().cast(name, tensors)
        for tensor, cast in zip(tensors, made, strict=True):
            if not tensor.requires_grad:
                tensor.data = cast.data
        return made


@answers.wrong("mini_autocast", "the first tensor decides how wide")
class FirstWide(Region):
    def cast(self, name, tensors):
        if name in WIDEST:
            name = "sum" if tensors[0].dtype == torch.float32 else "mm"
        return super().cast(name, tensors)


@answers.wrong("mini_autocast", "casts nothing before begin")
class WaitsForBegin(Region):
    def cast(self, name, tensors):
        return super().cast(name, tensors) if self.inner else tensors


def test_the_hints_name_the_mistake():
    scaler, region = answers.exercises["grad_scaler"], answers.exercises["mini_autocast"]
    scale = answers.exercises["best_scale"]
    assert "in *any* gradient" in first_hint(scaler, Steps)
    assert "once more in `step`" in first_hint(scaler, Twice)
    assert "count starts again" in first_hint(scaler, Grows)
    assert "the same object" in first_hint(region, EachTime)
    assert "casts already" in first_hint(region, WaitsForBegin)
    assert "Integers and float64" in first_hint(region, Integers)
    assert "Integers and float64" in first_hint(region, Doubles)
    assert "belong to the caller" in first_hint(region, IntoTheList)
    assert "belong to the caller" in first_hint(region, IntoTheTensors)
    assert "is no leaf" in first_hint(region, KeepsComputed)
    assert "only until `end`" in first_hint(region, Survives)
    assert "Do not detach" in first_hint(region, Detached)
    assert "Do not detach" in first_hint(region, ALeafOfItsOwn)
    assert "Only casts of weights are kept" in first_hint(region, KeepsAll)
    assert "not empty after `update`" in first_hint(scaler, KeepsFound)
    assert "becomes an infinity" in first_hint(scale, too_many)
    assert "`isfinite` is False for both" in first_hint(scaler, NoNan)
    assert "An optimizer stood still" in first_hint(scaler, AllStop)
    assert "*any* optimizer" in first_hint(scaler, LastOnly)
    assert "in no list" in first_hint(region, Everything)
    assert "One float32 tensor is enough" in first_hint(region, FirstWide)
    assert "switched off nothing is cast" in first_hint(region, AlwaysOn)
    assert "switched off nothing is cast" in first_hint(region, InnerDrops)
    assert "good updates there were" in first_hint(scaler, ScaleOnly)
    assert "also when the weight was written" in first_hint(region, Fresh)


def test_a_parameter_that_backward_did_not_reach_has_no_gradient_to_unscale():
    reached, other = (torch.ones(1, requires_grad=True) for _ in range(2))
    optimizer = torch.optim.SGD([other, reached], lr=0.1)
    (3 * reached).sum().backward()
    assert [g.tolist() for g in gradients(optimizer)] == [[3.0]]


def test_a_message_says_which_tensor_came_back():
    script = [("cast", "mm", [0]), ("cast", "mm", [0]), ("cast", "add", [0])]
    said = mini_autocast.expected([("float32", "weight")], script)
    assert [entry[2] for entry in said] == [
        "a new cast, number 1",
        "cast 1 again",
        "the argument itself",
    ]


def test_the_largest_scale_fits_and_its_double_does_not():
    grads = [0.001, -0.5]
    scale = best_scale(grads)
    assert scale == 65536.0
    halves = [torch.tensor(g * scale).half().item() for g in grads]
    assert all(map(math.isfinite, halves))
    assert torch.tensor(-0.5 * scale * 2).half().item() == -math.inf


test_answers = answers.tests()
