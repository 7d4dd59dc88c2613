"""Right and wrong answers to the exercises on checkpoints."""

import contextlib

import pytest
import torch

from labkit.course.checks import outcomes
from labkit.course.exercises import find
from labkit.course.exercises._never_right import TOO_SLOW
from tests.course.answers import Answers, first_hint

answers = Answers("checkpoint")
FIRST = "remembers the answer of the first random case and returns it for all later cases"

# --- checkpoint


class Enough(Exception):
    """Everything has been computed again."""


def made(
    restore=True, keep=False, early=True, once=True, put_back=True, grad_mode=None, slow=False,
    drop=True,
):  # fmt: skip
    """A checkpoint, with one thing wrong on request."""

    def checkpoint(function, *args, **kwargs):
        state = torch.get_rng_state()
        again, count = {}, 0
        kept = []

        def pack(tensor):
            nonlocal count
            count += 1
            if keep:
                kept.append(tensor.detach())
            return count - 1

        def recompute():
            number = 0

            def pack_again(tensor):
                nonlocal number
                if slow:
                    sum(1 for _ in range(number * 400))
                again[number] = tensor.detach()
                number += 1
                if early and number == count:
                    raise Enough

            now = torch.get_rng_state()
            if restore:
                torch.set_rng_state(state)
            try:
                hooks = torch.autograd.graph.saved_tensors_hooks(pack_again, lambda _: None)
                with hooks, torch.enable_grad():
                    function(*args, **kwargs)
            except Enough:
                pass
            finally:
                if put_back:
                    torch.set_rng_state(now)

        def unpack(number):
            if number not in again or not once:
                recompute()
            return again.pop(number) if drop else again[number]

        mode = contextlib.nullcontext() if grad_mode is None else grad_mode()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack), mode:
            return function(*args, **kwargs)

    return checkpoint


answers.right("checkpoint")(made())
answers.wrong("checkpoint", "reruns without the random state")(made(restore=False))
answers.wrong("checkpoint", "reruns without the random state")(made(put_back=False))
answers.wrong("checkpoint", "runs the whole function again for each saved tensor")(made(once=False))
answers.wrong("checkpoint", "runs the whole function again for each saved tensor")(
    made(early=False)
)
answers.wrong("checkpoint", "keeps the first activations")(made(keep=True))
answers.wrong("checkpoint", "breaks under no_grad")(made(grad_mode=torch.enable_grad))
answers.wrong("checkpoint", "keeps what it has handed out")(made(drop=False))
answers.wrong("checkpoint", TOO_SLOW)(made(slow=True))


@answers.wrong("checkpoint", "keeps the first activations")
def calls_it(function, *args, **kwargs):
    return function(*args, **kwargs)


@answers.wrong("checkpoint", "gradients of closures lost")
def gradients_of_arguments_only(function, *args, **kwargs):
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.state = torch.get_rng_state()
            return function(x, *args[1:], **kwargs)

        @staticmethod
        def backward(ctx, grad):
            now = torch.get_rng_state()
            torch.set_rng_state(ctx.state)
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                result = function(x, *args[1:], **kwargs)
            torch.set_rng_state(now)
            return torch.autograd.grad(result, x, grad)[0]

    return Again.apply(*args[:1]) if args else function(**kwargs)


@lambda make: answers.wrong("checkpoint", FIRST, make=True)(make)
def remembers_the_first():
    kept = []

    def checkpoint(function, *args, **kwargs):
        kept.append(function(*args, **kwargs))
        return kept[0]

    return checkpoint


@answers.wrong("checkpoint", "gradients of closures lost")
def pytorchs_own(function, *args, **kwargs):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(function, *args, use_reentrant=False, **kwargs)


# --- pack_half and best_segments


def pack_half(tensor):
    return tensor.to(torch.float16)


def unpack_half(kept):
    return kept.to(torch.float32)


answers.right("pack_half")((pack_half, unpack_half))
answers.wrong("pack_half", "keeps the tensor as it is")((lambda t: t, lambda t: t))
answers.wrong("pack_half", "hands back half precision")((pack_half, lambda kept: kept))
answers.wrong("pack_half", "keeps half of the numbers")(
    (lambda t: pack_half(t)[: len(t) // 2], unpack_half)
)


def divisors(n):
    return [k for k in range(1, n + 1) if n % k == 0]


@answers.right("best_segments")
def best_segments(n):
    return min(divisors(n), key=lambda k: k + 2 * n // k)


@answers.wrong("best_segments", "takes the root, whether or not it divides")
def root(n):
    return max(1, round((2 * n) ** 0.5))


@answers.wrong("best_segments", "returns the number of tensors")
def fewest_tensors(n):
    return min(k + 2 * n // k for k in divisors(n))


@answers.wrong("best_segments", "takes the larger of two equals")
def larger(n):
    return min(reversed(divisors(n)), key=lambda k: k + 2 * n // k)


@answers.wrong("best_segments", "forgets the factor 2")
def without_two(n):
    return min(divisors(n), key=lambda k: k + n // k)


@answers.wrong("best_segments", "leaves n itself out")
def without_n(n):
    return min((k for k in range(1, n) if n % k == 0), key=lambda k: k + 2 * n // k)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (without_n, "range(1, n + 1)"),
        (larger, "first of equals"),
        (root, "does not divide"),
        (fewest_tensors, "how many tensors are alive"),
    ],
)
def test_what_best_segments_does_wrong_earns_its_own_hint(answer, said):
    assert said in first_hint(answers.exercises["best_segments"], answer)


test_answers = answers.tests()


def test_a_failing_case_is_told_in_words():
    found = outcomes(find("checkpoint.checkpoint"), made(restore=False), 11)
    said = next(one.failures[0].input for one in found if one.failures)
    assert said.startswith("x of ") and "dropout" in said and "returns a t" in said
    assert not {"{", "rest", "asks"} & {*said.split(), said[0]}


def test_a_checkpoint_that_misses_one_thing_passes_the_stages_before_it():
    def states(answer):
        found = outcomes(find("checkpoint.checkpoint"), answer, 11)
        return {outcome.name: outcome.state for outcome in found}

    no_stop, no_state = states(made(early=False)), states(made(restore=False))
    assert no_stop["gradients"] == no_stop["once"] == no_stop["random numbers"] == "done"
    assert no_stop["early stop"] == no_stop["everything"] == "wrong"
    assert no_state["once"] == no_state["early stop"] == "done"
    assert no_state["random numbers"] == "wrong"
