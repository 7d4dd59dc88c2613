"""Right and wrong answers to the exercises on a view that forgot its ban; the rule they repair."""

import itertools

import pytest
import torch

import labkit as lab
from labkit.autograd.variables.meta import CreationMeta
from labkit.autograd.variables.views import propagated
from labkit.course.exercises import _chained_views
from tests.course.answers import Answers

answers = Answers("view_that_forgot")
DEFAULT = CreationMeta.DEFAULT
SEVERAL = CreationMeta.MULTI_OUTPUT_NODE


# --- first_lost


@answers.right("first_lost")
def first_lost(chain):
    for place in range(1, len(chain)):
        if chain[place - 1] != "DEFAULT" and chain[place] == "DEFAULT":
            return place
    return None


@answers.wrong("first_lost", "names the first view without a ban")
def first_default(chain):
    return chain.index("DEFAULT") if "DEFAULT" in chain else None


@answers.wrong("first_lost", "names the last one")
def last_default(chain):
    found = first_lost(chain)
    return found if found is None else len(chain) - 1


@answers.wrong("first_lost", "names the view before")
def one_before(chain):
    found = first_lost(chain)
    return found if found is None else found - 1


@answers.wrong("first_lost", "never says None")
def never_none(chain):
    return first_lost(chain) or 0


@answers.wrong("first_lost", "takes a change of the ban for its loss")
def any_change(chain):
    pairs = enumerate(itertools.pairwise(chain), 1)
    return next((place for place, (a, b) in pairs if a != b and a != "DEFAULT"), None)


# --- carried


@answers.right("carried")
def carried(before, own):
    if own is DEFAULT or before is CreationMeta.INFERENCE_MODE:
        return before
    return own


@answers.wrong("carried", "the rule of 2020")
def own_alone(before, own):
    return own


@answers.wrong("carried", "forbids every write to a view")
def forbids(before, own):
    return SEVERAL


@answers.wrong("carried", "repairs unbind and split alone")
def several_alone(before, own):
    return before if before is SEVERAL and own is DEFAULT else own


@answers.wrong("carried", "ignores views made under no_grad")
def no_no_grad(before, own):
    return own if before is CreationMeta.NO_GRAD_MODE else carried(before, own)


@answers.wrong("carried", "lets the older of two bans win")
def older(before, own):
    return own if before is DEFAULT else before


@answers.wrong("carried", "forgets that inference mode comes first")
def newer(before, own):
    return before if own is DEFAULT else own


@answers.wrong("carried", "refuses to make the view")
def raises(before, own):
    if before is not DEFAULT and own is DEFAULT:
        raise RuntimeError("a view of a view that may not be written")
    return carried(before, own)


# --- regression_test


def refused(view):
    try:
        view.mul_(2)
    except RuntimeError:
        return True
    return False


def fresh(m):
    return m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) * 1


def flipped(m, x):
    class Flip(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return -grad

    return Flip.apply(x)


@answers.right("regression_test")
def regression_test(m):
    assert not refused(fresh(m)[:1][:1])
    assert refused(fresh(m).unbind()[0][:1][:1])
    x = fresh(m)
    with m.no_grad():
        unrecorded = x[:1]
    assert refused(unrecorded[:1])
    assert refused(flipped(m, fresh(m))[:1])


@answers.wrong("regression_test", "also passes with the rule of 2020")
def direct_write(m):
    assert refused(fresh(m).unbind()[0])
    assert not refused(fresh(m)[:1][:1])


@answers.wrong("regression_test", "fails in today's PyTorch")
def opposite(m):
    regression_test(m)
    assert not refused(fresh(m).unbind()[0][:1])


@answers.wrong("regression_test", "looks one view deep")
def one_deep(m):
    assert not refused(fresh(m)[:1][:1])
    x = fresh(m)
    with m.no_grad():
        unrecorded = x[:1]
    for view in (fresh(m).unbind()[0], unrecorded, flipped(m, fresh(m))):
        assert refused(view[:1])


@answers.wrong("regression_test", "tests unbind alone")
def unbind_alone(m):
    assert refused(fresh(m).unbind()[0][:1][:1])
    assert not refused(fresh(m)[:1][:1])


@answers.wrong("regression_test", "does not ask whether legal programs stay legal")
def all_refused(m):
    x = fresh(m)
    with m.no_grad():
        unrecorded = x[:1]
    for view in (fresh(m).unbind()[0][:1], unrecorded, flipped(m, fresh(m))):
        assert refused(view[:1])


@answers.wrong("regression_test", "checks values alone")
def values(m):
    x = fresh(m)
    x[:1][:1].mul_(2)
    assert x.detach().flatten().tolist() == [2.0, 4.0, 3.0, 4.0]


test_answers = answers.tests()


# --- what the chapter shows


def test_the_comparison_is_red_with_the_old_rule_and_green_with_todays():
    red = _chained_views.against_torch(_chained_views.rule_of_2020, 20)
    assert 0 < red.equal < red.compared
    assert "torch alone" in red.first_difference
    assert _chained_views.against_torch(propagated, 40).passed


@pytest.mark.parametrize("kind", ["unbind", "no_grad", "Reverse"])
def test_the_old_rule_lets_a_write_pass_that_torch_refuses(kind):
    program = [("view", 0, kind), ("view", 1, "slice"), ("write", 2, 2.0)]
    with _chained_views.pytorch_of_2020():
        assert _chained_views.outcome(lab, program)["refused"] == []
    assert len(_chained_views.outcome(torch, program)["refused"]) == 1
    assert _chained_views.outcome(lab, program) == _chained_views.outcome(torch, program)


def test_the_minus_of_reverse_is_lost_under_the_old_rule():
    program = [("view", 0, "Reverse"), ("view", 1, "slice"), ("write", 2, 2.0)]
    with _chained_views.pytorch_of_2020():
        gradients = _chained_views.outcome(lab, program)["gradients"]
    assert gradients[2] == [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0]


def test_a_rule_not_written_yet_is_told_from_a_refusal_in_backward_too():
    def stub(before, own):
        raise NotImplementedError

    program = [("view", 0, "transpose"), ("view", 0, "unbind"), ("write", 2, 2.0)]
    with pytest.raises(NotImplementedError), _chained_views.views_by(stub):
        _chained_views.outcome(lab, program)
