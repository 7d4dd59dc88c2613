import inspect
import types

import pytest
import torch

import labkit as lab
from labkit import cuda, nn
from labkit.amp import autocast
from labkit.autograd import Function, grad, once_differentiable
from labkit.cuda.errors import CaptureError
from labkit.cuda.host_calls import host_calls
from labkit.graphed import (
    CUDAGraph,
    ReplayError,
    graph,
    graph_pool_handle,
    make_graphed_callables,
)


def network(seed=0):
    lab.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to("cuda")


def batches(count=3, rows=2):
    return [lab.randn(rows, 4).to("cuda") for _ in range(count)]


def sample():
    return lab.zeros(2, 4, device="cuda").requires_grad_(True)


def one_step(call, model, x):
    """Result and all gradients, as numbers."""
    x = x.clone().requires_grad_(True)
    for parameter in model.parameters():
        parameter.grad = None
    result = call(x)
    result.square().sum().backward()
    return [one.tolist() for one in (result, x.grad, *(p.grad for p in model.parameters()))]


def pytorchs_own():
    """PyTorch's own function, with labkit's names where it asks for PyTorch's."""

    def no_only_inputs(*args, only_inputs, **kwargs):
        return grad(*args, **kwargs)

    device = types.SimpleNamespace(
        CUDAGraph=CUDAGraph, graph=graph, Stream=cuda.Stream, stream=lambda stream: stream,
        synchronize=lambda: cuda.current_driver().synchronize(),
    )  # fmt: skip
    function = types.SimpleNamespace(once_differentiable=once_differentiable)
    autograd = types.SimpleNamespace(Function=Function, function=function, grad=no_only_inputs)
    names = types.SimpleNamespace(
        cuda=device, autograd=autograd, nn=types.SimpleNamespace(Module=nn.Module),
        utils=torch.utils, Tensor=lab.Tensor, empty_like=lab.empty_like,
        is_autocast_enabled=lambda: False,
    )  # fmt: skip
    theirs = torch.cuda.make_graphed_callables
    known = {**theirs.__globals__, "torch": names, "graph_pool_handle": graph_pool_handle}
    return types.FunctionType(theirs.__code__, known, argdefs=theirs.__defaults__)


MAKERS = {"labkit's": lambda: make_graphed_callables, "PyTorch's source": pytorchs_own}


@pytest.fixture(params=MAKERS)
def make(request, device):
    return MAKERS[request.param]()


def test_values_and_gradients_are_the_eager_ones(make):
    model = network()
    given = batches()
    eager = [one_step(model, model, x) for x in given]
    graphed = make(lambda x: model(x), (sample(),))
    with pytest.raises(RuntimeError, match="have been used"):
        make(lambda x: model(x.detach()), (sample(),))
    results = [graphed(x).tolist() for x in given]
    assert results == [step[0] for step in eager]


def test_a_modules_parameters_get_their_gradients(make):
    model = network()
    model.__dict__["_backward_hooks"] = {}  # which PyTorch asks of a module
    given = batches()
    eager = [one_step(model, model, x) for x in given]
    assert make(model, (sample(),)) is model
    assert [one_step(model, model, x) for x in given] == eager
    with host_calls() as asked:
        model(given[0])
    assert asked["graph_launch"] == 1
    with host_calls() as asked:
        model.eval()(given[0])
    assert asked["graph_launch"] == 0


def test_the_next_call_overwrites_the_last_result(make):
    model = network()
    graphed = make(lambda x: model(x), (sample(),))
    a, b = batches(2)
    first = graphed(a)
    before = first.tolist()
    graphed(b)
    assert first.tolist() != before


def test_two_callables_share_a_pool_and_run_in_their_order(make):
    one, two = network(1), nn.Linear(3, 3).to("cuda")
    given = batches(2)
    eager = [two(one(x)).tolist() for x in given]
    hidden = lab.zeros(2, 3, device="cuda").requires_grad_(True)
    calls = (lambda x: one(x), lambda h: two(h))
    first, second = make(calls, ((sample(),), (hidden,)))
    assert [second(first(x)).tolist() for x in given] == eager


def test_both_capture_the_same_nodes(device):
    found = []
    for make in (make_graphed_callables, pytorchs_own()):
        model = network()
        with host_calls() as asked:
            make(lambda x, model=model: model(x), (sample(),))
        found.append(dict(asked))
    assert found[0] == found[1]


def test_the_signature_is_pytorchs():
    mine, theirs = map(
        inspect.signature, (make_graphed_callables, torch.cuda.make_graphed_callables)
    )
    assert [(p.name, p.default) for p in mine.parameters.values()] == [
        (p.name, p.default) for p in theirs.parameters.values()
    ]


def hooked(library):
    model = library.nn.Linear(2, 2)
    model.register_forward_hook(lambda *_: None)
    return model, (library.ones(1, 2),)


def trainable_buffer(library):
    model = library.nn.Linear(2, 2)
    model.register_buffer("scale", library.ones(2).requires_grad_(True))
    return model, (library.ones(1, 2),)


def a_number(library):
    return abs, (3,)


@pytest.mark.parametrize("arguments", [hooked, trainable_buffer, a_number])
def test_arguments_are_refused_in_pytorchs_words(arguments):
    said = []
    for library, make in (
        (torch, torch.cuda.make_graphed_callables),
        (lab, make_graphed_callables),
    ):
        with pytest.raises(AssertionError) as refused:
            make(*arguments(library))
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_autocast_with_its_cache_is_refused(device):
    model, x = network(), batches(1)[0]
    with autocast("cuda"), pytest.raises(RuntimeError, match="cache_enabled=False"):
        make_graphed_callables(lambda x: model(x), (sample(),))
    with autocast("cuda", cache_enabled=False):
        graphed = make_graphed_callables(lambda x: model(x), (sample(),))
        assert graphed(x).tolist() == model(x).tolist()


REFUSED = {
    "argument 0 has shape (1, 4), and the graph was captured with (2, 4)": lambda: (
        lab.zeros(1, 4, device="cuda"),
    ),
    "argument 0 has shape (4, 2)": lambda: (lab.zeros(4, 2, device="cuda"),),
    "argument 0 has dtype": lambda: (lab.zeros(2, 4, device="cuda", dtype=lab.float64),),
    "argument 0 has device cpu": lambda: (lab.zeros(2, 4),),
    "captured with 1 arguments, not 2": lambda: (sample(), sample()),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_replay_with_other_arguments_is_refused_with_the_reason(device, reason):
    model = network()
    graphed = make_graphed_callables(lambda x: model(x), (sample(),))
    with pytest.raises(ReplayError) as refused:
        graphed(*REFUSED[reason]())
    assert reason in str(refused.value)
    x = batches(1)[0]
    assert graphed(x).tolist() == model(x).tolist()


def test_pytorchs_own_source_broadcasts_another_shape_in_silence(device):
    model = network()
    graphed = pytorchs_own()(lambda x: model(x), (sample(),))
    x = batches(1, rows=1)[0]
    assert graphed(x).tolist() == model(x).tolist() * 2


def test_what_is_lazy_happens_before_the_capture(device):
    kept = {}

    def lazy(x):
        if "scale" not in kept:
            kept["scale"] = lab.tensor([1.0, 2.0, 3.0, 4.0]).to("cuda")  # from pageable memory
        return x * kept["scale"]

    x = batches(1)[0]
    with pytest.raises(CaptureError):
        make_graphed_callables(lazy, (x,), num_warmup_iters=0)
    graphed = make_graphed_callables(lazy, (x,))
    assert graphed(x).tolist() == lazy(x).tolist()
