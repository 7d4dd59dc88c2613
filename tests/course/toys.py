"""Small exercises for the tests of the checker itself."""

import torch

from labkit.course.exercise import Case, Exercise, Raises, Rng, Wrong, handed_out

ABOUT = {"hints": ("one", "two", "three"), "must_fail": ("a constant",)}


def numbers(rng: Rng, size: int):
    return ([rng.randint(-9, 9) for _ in range(rng.randint(0, size))],)


def total(values):
    return sum(values)


def shorter(values):
    for at in range(len(values)):
        yield (values[:at] + values[at + 1 :],)


add_up = Exercise(
    id="toys.add_up", case=numbers, expected=total, smaller=shorter, seconds=0.3, waits=0.5,
    cases=40, **ABOUT,
)  # fmt: skip


def first_of(values):
    return values[0] if values else Raises(IndexError, "empty")


first = Exercise(id="toys.first", case=numbers, expected=first_of, cases=40, **ABOUT)


def hidden(rng: Rng, size: int):
    return Case((size,), truth=rng.randint(0, 10**9))


guess = Exercise(id="toys.guess", case=hidden, cases=20, **ABOUT)


def tensors(rng: Rng, size: int):
    dtype = rng.choice((torch.float32, torch.float64, torch.int16, torch.uint8))
    return rng.tensor(rng.sizes(rank=2, largest=3), dtype), rng.tensor((), dtype)


def outer_sum(a, b):
    return a + b


no_add = Exercise(
    id="toys.no_add",
    case=tensors,
    expected=outer_sum,
    banned=("torch.add", "torch.Tensor.add", "torch.Tensor.__add__", "torch.broadcast_shapes"),
    cases=30,
    **ABOUT,
)
no_torch = Exercise(
    id="toys.no_torch", case=tensors, expected=outer_sum, banned=("torch.*",), cases=30, **ABOUT
)
no_labkit = Exercise(
    id="toys.no_labkit",
    case=numbers,
    expected=total,
    banned=("labkit.*", "numpy.sum", "math.fsum"),
    cases=30,
    **ABOUT,
)


def any_divisor(case, got):
    if not isinstance(got, int) or got < 1:
        return "a divisor is a positive integer"
    return None if case.inputs[0] % got == 0 else Wrong("it divides the number", "a divisor")


divisor = Exercise(
    id="toys.divisor",
    case=lambda rng, size: (rng.randint(2, 50),),
    judge=any_divisor,
    cases=40,
    **ABOUT,
)


@handed_out
def helper(values):
    return sorted(values)


def use(answer, values):
    stack = answer()
    for value in values:
        stack.push(value)
    return [stack.pop() for _ in values]


stack = Exercise(
    id="toys.stack",
    case=numbers,
    expected=lambda values: values[::-1],
    drive=use,
    cases=30,
    **ABOUT,
)


no_libraries = Exercise(
    id="toys.no_libraries",
    case=numbers,
    expected=total,
    banned=("torch.*", "numpy.*"),
    cases=20,
    **ABOUT,
)
