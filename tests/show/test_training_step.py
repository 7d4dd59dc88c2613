"""One training step in five lanes: what the view holds of a step, whatever the step does."""

import pytest
import torch

import labkit as lab
from labkit import nn, optim
from labkit.show import training_step
from labkit.widgets.base import unpack_columns


def perceptron(library):
    parts = torch.nn if library is torch else nn
    return parts.Sequential(parts.Linear(2, 3), parts.ReLU(), parts.Sequential(parts.Linear(3, 1)))


def step_of(library, model):
    optimizer = (torch.optim if library is torch else optim).SGD(model.parameters(), lr=0.1)
    x = library.tensor([[1.0, 2.0], [0.5, -1.0]])

    def step():
        optimizer.zero_grad()
        (model(x) * model(x)).mean().backward()
        optimizer.step()

    return step


def events(view):
    """(kind, text) of every event."""
    kinds = view.meta["words"]["kinds"]
    numbers = unpack_columns(view.meta["schema"], view.data)["event.kind"]
    return [(kinds[n], text) for n, text in zip(numbers, view.step_texts(), strict=True)]


def texts(view, kind):
    return [text for found, text in events(view) if found == kind]


@pytest.mark.parametrize("library", [lab, torch])
def test_forward_then_backward_then_the_update(library):
    model = perceptron(library)
    view = training_step(step_of(library, model))
    phases = unpack_columns(view.meta["schema"], view.data)["event.phase"].tolist()
    assert phases == sorted(phases)
    assert set(phases) == {0, 1, 2}
    leaves = [text.partition(".grad")[0] for text in texts(view, "accumulation")]
    assert sorted(leaves) == sorted(name for name, _ in model.named_parameters())
    labels = [node["label"] for node in view.meta["level"]["nodes"]]
    assert {"0.weight", "2.0.bias", "MeanBackward0"} <= set(labels)
    before = {name: value.detach() * 1 for name, value in model.named_parameters()}
    training_step(step_of(library, model), module=model)
    assert any(bool((before[n] != v.detach()).any()) for n, v in model.named_parameters())


@pytest.mark.parametrize("library", [lab, torch])
def test_operators_come_with_their_hops(library):
    calls = training_step(step_of(library, perceptron(library))).meta["calls"]
    addmm = next(call for call in calls if call[0] == "aten::addmm")
    assert [(slot, seen) for slot, _, seen, _ in addmm[4]] == [
        ("AutogradCPU", int(library is lab)),
        ("CPU", int(library is lab)),
    ]
    assert calls[addmm[1]][0] == ("aten::linear" if library is lab else "torch linear")
    backward = [call for call in calls if call[0] == "aten::threshold_backward"]
    assert [call[1] for call in backward] == [-1, -1]  # called by the engine, not by a function


@pytest.mark.parametrize("library", [lab, torch])
def test_an_error_of_the_engine_is_shown_and_one_of_the_step_is_raised(library):
    x = library.tensor([1.0]).requires_grad_()

    def spoilt():
        y = x.exp()
        z = y * 2
        with library.no_grad():
            y.mul_(3)
        z.backward()

    assert "modified by an inplace operation" in texts(training_step(spoilt), "error")[0]

    def broken():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        training_step(broken)


def test_two_backward_calls_are_two():
    x = torch.ones(2, requires_grad=True)

    def step():
        x.pow(3).sum().backward()
        (x * x).sum().backward()

    view = training_step(step)
    assert len(texts(view, "backward")) == 2
    assert len(view.meta["level"]["nodes"]) == 5
    assert x.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [(3, TypeError, "without arguments, got int"), (lambda: None, ValueError, "ran no backward")],
)
def test_what_is_no_step_is_refused(step, error, message):
    with pytest.raises(error, match=message):
        training_step(step)


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match=r"must be an nn\.Module, got int"):
        training_step(lambda: None, module=3)


@pytest.mark.parametrize("library", [lab, torch])
def test_a_saved_number_does_not_stop_the_recording(library):
    x = library.ones(3, requires_grad=True)
    view = training_step(lambda: ((x * 2).exp() * 3).sum().backward())
    assert texts(view, "accumulation") == ["x.grad becomes what arrived"]


@pytest.mark.parametrize(("library", "reentrant"), [(lab, False), (torch, False), (torch, True)])
def test_checkpoints_compute_again_inside_the_recording(library, reentrant):
    if library is torch:
        from torch.utils.checkpoint import checkpoint
    else:
        from labkit.autograd.checkpoint import checkpoint
    x = library.ones(3, requires_grad=True)
    block = lambda t: (t * t).exp()  # noqa: E731
    view = training_step(lambda: checkpoint(block, x * 1, use_reentrant=reentrant).sum().backward())
    assert len(texts(view, "backward")) == 1 + reentrant
    assert sum("aten::exp " in text for text in texts(view, "call")) == 2
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828] * 3, rel=1e-5)


@pytest.mark.parametrize("library", [lab, torch])
def test_a_second_derivative_is_a_second_call(library):
    x = library.ones(2, requires_grad=True)

    def step():
        (gx,) = library.autograd.grad((x**3).sum(), [x], create_graph=True)
        gx.sum().backward()

    view = training_step(step)
    assert len(texts(view, "backward")) == 2
    assert x.grad.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("library", [lab, torch])
def test_a_custom_function_is_a_node_like_others(library):
    class Square(library.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    x = library.ones(2, requires_grad=True)
    view = training_step(lambda: Square.apply(x).sum().backward())
    assert "SquareBackward" in [node["label"] for node in view.meta["level"]["nodes"]]
    assert x.grad.tolist() == [2.0, 2.0]


def test_it_opens_at_a_kernel_and_its_picture_says_the_event():
    model = perceptron(lab).to("cuda")
    x = lab.tensor([[1.0, 2.0]]).to("cuda")
    view = training_step(lambda: model(x).sum().backward())
    assert events(view)[view.frame][0] == "kernel queued"
    assert repr(view).startswith("StepView(")
    assert view.step_texts()[view.frame] in view.svg()
    assert "lambda: model(x).sum().backward()" in view.svg()
    late = training_step(lambda: model(x).sum().backward(), at="backward begins")
    assert "NllLoss" not in late.svg()
    assert "event" in late.svg()
