"""A backward call as frames: torch's and labkit's tell the same story."""

import pytest
import torch

import labkit as lab
from labkit.show import backward

LIBRARIES = [lab, torch]


def two_paths(library):
    """y = x * w feeds exp; x feeds the sum as well: its accumulator waits for two gradients."""
    x = library.tensor([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    w = library.tensor([[1.0, -1.0]]).requires_grad_()
    return x, w, ((x * w).exp() + x).sum()


def runs(view):
    """The names of the nodes, in the order in which they ran."""
    return [frame["text"].partition(" leaves")[0] for frame in of_kind(view, "node runs")]


def of_kind(view, kind):
    return [frame for frame in view.frames if frame.get("kind") == kind]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_step_of_a_small_graph(library):
    x, w, z = two_paths(library)
    view = backward(z, title="two paths")
    assert repr(view) == "GraphView(6 nodes, 6 edges, 26 steps)"
    assert runs(view) == [
        "SumBackward0 #3",
        "AddBackward0 #2",
        "ExpBackward0 #1",
        "MulBackward0 #0",
        "AccumulateGrad x",
        "AccumulateGrad w",
    ]
    start = view.frames[0]
    labels = [node["label"] for node in view.levels["all"]["nodes"]]
    leaf = str(labels.index("AccumulateGrad"))
    assert start["notes"][leaf] == "waits: 2"
    assert start["lists"]["ready heap"] == ["SumBackward0 #3"]
    assert x.grad is not None
    assert w.grad is not None


def test_torch_and_labkit_give_the_same_frames():
    mine, theirs = (backward(two_paths(library)[2]) for library in LIBRARIES)
    assert mine.frames == theirs.frames


@pytest.mark.parametrize("seed", range(6))
def test_frames_agree_on_random_graphs(seed):
    views = []
    for library in LIBRARIES:
        rng = torch.Generator().manual_seed(seed)
        values = [library.tensor([1.0 + i, -0.5]).requires_grad_() for i in range(3)]
        for _ in range(9):
            i, j, kind = torch.randint(0, len(values), (3,), generator=rng).tolist()
            made = values[i] * values[j] if kind % 2 else values[i] + values[j]
            values.append(made.tanh() if kind % 3 == 0 else made)
        views.append(backward([v for v in values[-3:] if v.grad_fn is not None],
                              [library.ones(2)] * 3))  # fmt: skip
    assert runs(views[0])[-1] == runs(views[1])[-1]
    inner = [[name for name in runs(view) if not name.startswith("GraphRoot")] for view in views]
    assert inner[0] == inner[1]
    mine, theirs = (
        [heat["numbers"] for frame in view.frames for heat in frame.get("heats", ())]
        for view in views
    )
    assert len(mine) == len(theirs) > 20
    for a, b in zip(mine, theirs, strict=True):
        assert a == pytest.approx(b, rel=2e-3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_edge_a_gradient_came_along_is_lit(library):
    x = library.tensor([2.0]).requires_grad_()
    view = backward(x * x)
    arrivals = of_kind(view, "gradient arrives")
    assert [frame["edges"] for frame in arrivals] == [[0], [1]]
    assert arrivals[1]["heats"][0]["numbers"] == [4.0]
    assert [frame["flows"] for frame in arrivals] == [{"0": "2"}, {"1": "2"}]


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_walk_opens_at_the_step_worth_seeing(library):
    x = library.tensor([2.0]).requires_grad_()
    y = x * x
    view = backward(y, at="is added in")
    assert view.frames[view.frame]["kind"] == "gradient arrives"
    assert f"step {view.frame + 1} of {len(view.frames)}: a gradient is added" in view.svg()
    with pytest.raises(ValueError, match="no step says 'AddBackward'"):
        backward(x * x, at="AddBackward")


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_overwritten_saved_tensor_is_the_step_where_everything_stops(library):
    x = library.tensor([1.0, 2.0]).requires_grad_()
    y = x.exp()
    z = (y * 2).sum() + y.sum()
    with library.no_grad():
        y.mul_(3)
    view = backward(z)
    stops = [frame for frame in view.frames if frame.get("stop")]
    assert "ExpBackward0 #0 needs result as it was at version 0" in stops[0]["stop"]
    assert "it is at version 1" in stops[0]["stop"]
    assert "modified by an inplace operation" in stops[-1]["text"]
    assert "error" in view.frames[-1]["marks"].values()
    assert "needs result" in view.svg()


@pytest.mark.filterwarnings("ignore:.*[Aa]nomaly|Error detected|.*Traceback of forward")
@pytest.mark.parametrize("library", LIBRARIES)
def test_anomaly_mode_adds_the_forward_line(library):
    x = library.tensor([1.0, 2.0]).requires_grad_()
    with library.autograd.detect_anomaly(check_nan=False):
        y = x.exp()
        z = y * 2
        with library.no_grad():
            y.mul_(3)
        view = backward(z.sum())
    stop = next(frame["stop"] for frame in view.frames if frame.get("stop"))
    assert "its forward call was y = x.exp() (line " in stop


@pytest.mark.parametrize("library", LIBRARIES)
def test_hooks_of_leaves_fire_where_the_engine_calls_them(library):
    x = library.tensor([1.0]).requires_grad_()

    def doubled(grad):
        return grad * 2

    def seen(tensor):
        assert tensor.grad is not None

    x.register_hook(doubled)
    x.register_post_accumulate_grad_hook(seen)
    view = backward(x * 3)
    after = [frame["kind"] for frame in view.frames[-5:]]
    texts = [frame["text"] for frame in of_kind(view, "hook")]
    assert [text.partition("fires: ")[2] for text in texts] == [
        "tensor doubled",
        "post-accumulate seen",
    ]
    assert x.grad.item() == 6
    assert after[-3:] == ["accumulation", "hook", "end"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_only_what_leads_to_the_inputs_runs(library):
    x, w, z = two_paths(library)
    view = backward(z, inputs=[w])
    assert "AccumulateGrad w" in runs(view)
    assert x.grad is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_that_are_none_are_words(library):
    x = library.tensor([0.0, 1.0]).requires_grad_()
    view = backward(x.log().sum())
    (leaf,) = of_kind(view, "accumulation")
    assert leaf["heats"][0]["numbers"] == ["inf", 1.0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_large_graph_has_a_frame_per_node(library):
    x = library.tensor([1.0]).requires_grad_()
    y = x
    for _ in range(400):
        y = y + 1
    view = backward(y)
    assert len(view.frames) == 403
    assert view.frames[-1]["marks"]["400"] == "done"


def test_nothing_is_left_behind_in_torch():
    x = torch.ones(2, requires_grad=True)
    fired = []
    x.register_hook(lambda grad: fired.append(1))
    hook = next(iter(x._backward_hooks.values()))
    run, register = torch.autograd._engine_run_backward, torch.Tensor.register_hook
    backward((x * 2).sum())
    assert torch.autograd._engine_run_backward is run
    assert torch.Tensor.register_hook is register
    assert next(iter(x._backward_hooks.values())) is hook
    assert fired == [1]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: 3, TypeError, "got int"),
        (list, ValueError, "at least one tensor"),
        (lambda: torch.ones(2), ValueError, "no input of the operation"),
        (lambda: torch.ones(2, requires_grad=True) * 2, RuntimeError, "only for scalar outputs"),
        (lambda: (torch.ones(1, requires_grad=True) * 2).grad_fn, TypeError, "starts from tensors"),
    ],
)
def test_what_cannot_run_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        backward(make())


def test_tensors_of_both_libraries_are_refused():
    roots = [library.tensor([1.0]).requires_grad_() * 2 for library in LIBRARIES]
    with pytest.raises(TypeError, match="torch and of labkit"):
        backward(roots)


def test_a_checkpoint_asks_for_its_argument_and_no_node_is_blamed():
    x = lab.tensor([1.0, 2.0], requires_grad=True)
    y = lab.autograd.checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False)
    asked = [frame["text"] for frame in of_kind(backward(y.sum()), "saved tensor")]
    assert asked == ["a checkpoint asks for a saved tensor (2,): version 0, saved at 0"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_simple_walk_shows_only_gradients_that_arrive(library):
    x, w, z = two_paths(library)
    view = backward(z, simple=True, at="waits for 1 more")
    told = [frame["text"].removeprefix("a gradient arrives at ") for frame in view.frames]
    assert told == [
        "no node has run; SumBackward0 is the first",
        "AddBackward0: now it has all",
        "ExpBackward0: now it has all",
        "AccumulateGrad x: it waits for 1 more",
        "MulBackward0: now it has all",
        "AccumulateGrad x: now it has all",
        "AccumulateGrad w: now it has all",
        "backward is done, 6 nodes ran",
    ]
    assert x.grad is not None and w.grad is not None
    assert view.frame == 3 and view.simple and view.kinds == {}
    labels = {node["label"] for node in view.levels["all"]["nodes"]}
    assert {"AccumulateGrad x", "AccumulateGrad w", "MulBackward0"} <= labels
    marks = [mark for frame in view.frames for mark in frame["marks"].items()]
    assert len({node for node, state in marks if state == "done"}) == 6, "skipped steps, too"


@pytest.mark.parametrize("library", LIBRARIES)
def test_only_a_node_that_waits_for_more_has_a_waiting_buffer(library):
    view = backward(two_paths(library)[2])
    arrivals = of_kind(view, "gradient arrives")
    listed = [frame["lists"]["waiting buffers"] for frame in arrivals]
    assert next(filter(None, listed)) == ["AccumulateGrad leaf input 0: (2, 2)"]
    for frame, held in zip(arrivals, listed, strict=True):
        whole = frame["text"].endswith("nothing more will come")
        assert [*frame["marks"].values()] == ["ready" if whole else "waiting"]
        assert len(held) <= 1, "the others of this graph get one gradient"
