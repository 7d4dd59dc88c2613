"""Right and wrong answers to the exercises on a view that forgot its ban; the rule they repair."""

import itertools

import pytest
import torch

import labkit as lab
from labkit import cli, course
from labkit.autograd.variables.meta import CreationMeta
from labkit.autograd.variables.views import propagated
from labkit.conformance.autograd.chained_views import outcome, views_by
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


# --- audit

C = CreationMeta
OWN = {
    "slice": C.DEFAULT,
    "transpose": C.DEFAULT,
    "unbind": C.MULTI_OUTPUT_NODE,
    "split": C.MULTI_OUTPUT_NODE,
    "no_grad": C.NO_GRAD_MODE,
    "inference_mode": C.INFERENCE_MODE,
    "Reverse": C.IN_CUSTOM_FUNCTION,
}


def records(views, rule):
    found = [C.DEFAULT]
    for source, kind in views:
        found.append(rule(found[source], OWN[kind]))
    return found


def now(views):
    return records(views, propagated)


def then(views):
    return records(views, lambda before, own: own)


@answers.right("audit")
def audit(views):
    pairs = enumerate(zip(now(views), then(views), strict=True))
    return [number for number, (new, old) in pairs if new is not C.DEFAULT is old]


@answers.wrong("audit", "names every view that may not be written today")
def every_ban(views):
    return [number for number, new in enumerate(now(views)) if new is not C.DEFAULT]


@answers.wrong("audit", "names the views that they are made of")
def sources(views):
    return [views[number - 1][0] for number in audit(views)]


@answers.wrong("audit", "looks one view back")
def one_back(views):
    own = [C.DEFAULT, *(OWN[kind] for _, kind in views)]
    return [
        number
        for number, (source, kind) in enumerate(views, 1)
        if OWN[kind] is C.DEFAULT and own[source] is not C.DEFAULT
    ]


@answers.wrong("audit", "counts from 0")
def from_zero(views):
    return [number - 1 for number in audit(views)]


@answers.wrong("audit", "asks for unbind and split alone")
def several_outputs(views):
    return [n for n in audit(views) if now(views)[n] is C.MULTI_OUTPUT_NODE]


test_answers = answers.tests()


# --- what the chapter shows


def test_conformance_is_red_by_the_rule_of_2020():
    found = course.conformance("autograd", _chained_views.rule_of_2020)
    assert found.red == ["programs of chained views"]
    assert "torch alone" in repr(found)


def test_conformance_is_green_by_the_repair_in_a_file_of_its_own(tmp_path, capsys):
    file = tmp_path / "carried.py"
    lines = [
        "from labkit.autograd.variables.meta import CreationMeta as C",
        "def propagated(before, own):",
        "    return before if own is C.DEFAULT or before is C.INFERENCE_MODE else own",
    ]
    file.write_text("\n".join(lines))
    assert cli.main(["conformance", "autograd", "--system", str(file), "--seed", "4"]) == 0
    file.write_text("\n".join([*lines[:2], "    raise NotImplementedError"]))
    assert cli.main(["conformance", "autograd", "--system", str(file)]) == 1
    assert "raises NotImplementedError" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["unbind", "no_grad", "Reverse"])
def test_the_old_rule_lets_a_write_pass_that_torch_refuses(kind):
    program = [("view", 0, kind), ("view", 1, "slice"), ("write", 2, 2.0)]
    with _chained_views.pytorch_of_2020():
        assert outcome(lab, program)["refused"] == []
    assert len(outcome(torch, program)["refused"]) == 1
    assert outcome(lab, program) == outcome(torch, program)


def test_the_minus_of_reverse_is_lost_under_the_old_rule():
    program = [("view", 0, "Reverse"), ("view", 1, "slice"), ("write", 2, 2.0)]
    with _chained_views.pytorch_of_2020():
        gradients = outcome(lab, program)["gradients"]
    assert gradients[2] == [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0]


def test_a_rule_not_written_yet_is_told_from_a_refusal_in_backward_too():
    def stub(before, own):
        raise NotImplementedError

    program = [("view", 0, "transpose"), ("view", 0, "unbind"), ("write", 2, 2.0)]
    with pytest.raises(NotImplementedError), views_by(stub):
        outcome(lab, program)
