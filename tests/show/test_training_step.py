"""One training step, recorded: forward, backward, what the optimizer wrote."""

import pytest
import torch

import labkit as lab
from labkit import nn, optim
from labkit.show import graph, training_step


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


def kinds(view):
    return list(dict.fromkeys(frame["kind"] for frame in view.frames))


@pytest.mark.parametrize("library", [lab, torch])
def test_forward_then_backward_then_what_was_written(library):
    model = perceptron(library)
    view = training_step(step_of(library, model), module=model)
    assert kinds(view)[:2] == ["forward", "dependencies"]
    assert kinds(view)[-2:] == ["end", "written"]
    assert len(view.frames[-1]["lists"]["written"]) == 4
    before = {name: value.detach() * 1 for name, value in model.named_parameters()}
    training_step(step_of(library, model), module=model)
    assert any(bool((before[n] != v.detach()).any()) for n, v in model.named_parameters())


def test_forward_frames_of_torch_name_the_operator_and_show_its_result():
    model = perceptron(torch)
    view = training_step(step_of(torch, model), module=model)
    first = [frame for frame in view.frames if frame["kind"] == "forward"]
    assert first[1]["text"].startswith("forward: aten.addmm.default runs in 0; AddmmBackward0 #1")
    assert (first[1]["heats"][0]["rows"], first[1]["heats"][0]["columns"]) == (2, 3)


@pytest.mark.parametrize("library", [lab, torch])
def test_nodes_fold_by_the_module_that_made_them(library):
    model = perceptron(library)
    x = library.tensor([[1.0, 2.0]])
    view = graph(lambda: model(x).sum(), module=model)
    groups = {node["label"]: node["group"] for node in view.levels["all"]["nodes"]}
    assert groups["ReluBackward0"] == "1"
    assert groups["SumBackward0"] == ""
    assert [node["label"] for node in view.levels["folded"]["nodes"]] == [
        "SumBackward0",
        "2.0",
        "1",
        "0",
    ]
    shallow = graph(lambda: model(x).sum(), module=model, depth=1)
    assert "2" in [node["label"] for node in shallow.levels["folded"]["nodes"]]


@pytest.mark.parametrize("library", [lab, torch])
def test_an_error_of_the_engine_is_shown_and_one_of_the_step_is_raised(library):
    x = library.tensor([1.0]).requires_grad_()

    def spoilt():
        y = x.exp()
        z = y * 2
        with library.no_grad():
            y.mul_(3)
        z.backward()

    assert training_step(spoilt).frames[-1]["kind"] == "error"

    def broken():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        training_step(broken)


def test_two_backward_calls_are_two_recordings():
    x = torch.ones(2, requires_grad=True)

    def step():
        x.pow(3).sum().backward()
        (x * x).sum().backward()

    view = training_step(step)
    starts = [i for i, frame in enumerate(view.frames) if frame["kind"] == "dependencies"]
    assert len(starts) == 2
    assert set(view.frames[starts[1]]["marks"].values()) == {None, "ready"}
    assert x.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [(3, TypeError, "takes a function, got int"), (lambda: None, ValueError, "ran no backward")],
)
def test_what_is_no_step_is_refused(step, error, message):
    with pytest.raises(error, match=message):
        training_step(step)


def test_a_module_needs_a_function_and_must_be_one():
    x = torch.ones(1, requires_grad=True) * 2
    with pytest.raises(TypeError, match="pass a function"):
        graph(x, module=torch.nn.ReLU())
    with pytest.raises(TypeError, match=r"must be an nn\.Module, got int"):
        graph(lambda: x, module=3)
    with pytest.raises(ValueError, match="depth must be at least 1, got 0"):
        graph(lambda: x, module=torch.nn.ReLU(), depth=0)


@pytest.mark.parametrize("library", [lab, torch])
def test_a_saved_number_does_not_stop_the_recording(library):
    x = library.ones(3, requires_grad=True)
    view = training_step(lambda: ((x * 2).exp() * 3).sum().backward())
    assert view.frames[-1]["kind"] == "end"


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("library", [lab, torch])
def test_checkpoints_compute_again_inside_the_recording(library, reentrant):
    if library is torch:
        from torch.utils.checkpoint import checkpoint
    else:
        from labkit.autograd.checkpoint import checkpoint
    x = library.ones(3, requires_grad=True)
    block = lambda t: (t * t).exp()  # noqa: E731
    step = lambda: checkpoint(block, x * 1, use_reentrant=reentrant).sum().backward()  # noqa: E731
    view = training_step(step)
    assert view.frames[-1]["kind"] == "end"
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828] * 3, rel=1e-5)


@pytest.mark.parametrize("library", [lab, torch])
def test_a_second_derivative_is_a_second_call(library):
    x = library.ones(2, requires_grad=True)

    def step():
        (gx,) = library.autograd.grad((x**3).sum(), [x], create_graph=True)
        gx.sum().backward()

    view = training_step(step)
    assert [frame["kind"] for frame in view.frames].count("dependencies") == 2
    assert any(frame["kind"] == "capture" for frame in view.frames)
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
    assert "SquareBackward" in [node["label"] for node in view.levels["all"]["nodes"]]
    assert x.grad.tolist() == [2.0, 2.0]
