"""One step of PyTorch's on the device, written down while it happens."""

import gc
from collections import Counter

import pytest
import torch

from tests.torch_device import models
from tests.torch_device.apart import apart


def step_of(network):
    torch.manual_seed(1)
    model, x, target = network()
    model, x, target = model.to("lab"), x.to("lab"), target.to("lab")
    optimizer = models.sgd(model.parameters())

    def step():
        optimizer.zero_grad()
        scores = model(x)
        loss = torch.nn.functional.cross_entropy(scores, target)
        loss.backward()
        optimizer.step()

    return model, step


def requests(run):
    """The sizes that the run asks the allocator for, and how many blocks it gives back."""
    gc.collect()  # what others left behind must not be freed, and counted, in between
    torch.lab.allocator.record_memory_history(context=None)
    run()
    entries = torch.lab.allocator.history.since()
    torch.lab.allocator.record_memory_history(None)
    return [e.size for e in entries if e.action == "alloc"], Counter(e.action for e in entries)


@pytest.mark.parametrize("network", ["mlp", "cnn"])
@apart
def test_every_kernel_has_its_operator_its_line_and_its_node(network):
    from labkit.show.step.collect import record

    model, step = step_of(getattr(models, network))
    made = record(step, model)
    recording = made.recording
    names = made.walk.names()
    kernels = [launch for launch in recording.launches if launch.kind == "kernel"]
    assert len(kernels) > 20
    for launch in recording.launches:
        call, event = recording.calls[launch.call], recording.events[launch.queued]
        assert call.begin < launch.queued < call.end
        assert launch.queued < launch.ran
        place, number = recording.lines.chains[event.line][0]
        function = recording.lines.functions[place]
        said = function.lines[number - function.first_line].strip()
        expected = {"forward": ("scores = ", "loss = ", "loss.backward()"),
                    "backward": ("loss.backward()",), "update": ("optimizer.step()",)}  # fmt: skip
        assert said.startswith(expected[event.phase])
        if event.phase == "backward":
            assert names[event.node]
    assert made.error == ""


@apart
def test_hops_that_were_seen_are_told_from_those_of_the_table():
    from labkit.show.step.collect import record

    model, step = step_of(models.mlp)
    calls = record(step, model).recording.calls
    addmm = next(call for call in calls if call.operator == "aten::addmm")
    assert [(hop.slot, hop.observed) for hop in addmm.hops] == [
        ("AutogradPrivateUse1", False),
        ("PrivateUse1", False),
        ("PrivateUse1", True),
    ]
    assert addmm.hops[-1].kernel == "aten::addmm.out, a kernel of labkit's"
    assert calls[addmm.parent].operator == "torch linear"
    relu = next(call for call in calls if call.operator == "aten::relu")
    assert [hop.observed for hop in relu.hops] == [False, True]


@apart
def test_recording_asks_for_the_same_memory_as_a_plain_step():
    from labkit.show.step.collect import record

    _, step = step_of(models.cnn)
    step()
    step()
    plain = requests(step)
    assert requests(lambda: record(step)) == plain
    assert requests(step) == plain


@apart
def test_gradients_are_those_of_the_parameters():
    from labkit.show.step.collect import record

    model, step = step_of(models.mlp)
    made = record(step, model)
    found = {}
    for event, heat in made.heats.items():
        if made.recording.events[event].kind == "accumulation":
            found[made.recording.events[event].text.partition(".grad")[0]] = heat["numbers"]
    for name in ("0.bias", "2.bias"):
        expected = model.get_parameter(name).grad.cpu().reshape(-1).tolist()
        assert found[name] == pytest.approx(expected, rel=1e-3, abs=1e-6)
    edges = [event.edge for event in made.recording.events if event.kind == "gradient"]
    assert sorted(edges) == list(range(len(made.walk.edges)))


@apart
def test_what_the_host_computes_is_said_to_be_the_hosts():
    from labkit.show.step.collect import record

    x = torch.rand(4, device="lab", requires_grad=True)
    made = record(lambda: torch.special.i1(x).sum().backward())
    kernels = [hop.kernel for call in made.recording.calls for hop in call.hops if hop.observed]
    assert "aten::special_i1.out, computed by the host" in kernels


@apart
def test_a_step_leaves_no_observer_behind():
    from labkit.show.step.collect import record
    from labkit.torch_device import fallback

    x = torch.rand(4, device="lab", requires_grad=True)
    run = torch.autograd._engine_run_backward
    with pytest.raises(ZeroDivisionError):
        record(lambda: x.sum().backward() or 1 / 0)
    assert fallback.OBSERVERS == []
    assert torch.autograd._engine_run_backward is run
    assert x.sum().grad_fn.next_functions[0][0] is not None


@apart
def test_of_two_devices_the_current_one_is_watched():
    from labkit.show.step.collect import record

    x = torch.rand(4, device="lab:1", requires_grad=True)
    step = lambda: (x * 2).sum().backward()  # noqa: E731
    aside = record(step)
    assert aside.recording.launches == []
    assert aside.heats == {}
    assert aside.remarks == ["Streams and memory are those of lab:0, one of 2 devices."]
    with torch.lab.device(1):
        there = record(step)
    assert {launch.kind for launch in there.recording.launches} >= {"kernel"}
    assert len(there.heats) == 3
    x.grad = None
