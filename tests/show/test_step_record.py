"""One step of labkit's, written down: order, memory, kernels and gradients are those of the run."""

from collections import Counter

import numpy as np
import pytest

import labkit as lab
from labkit import cuda, nn, optim
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.memory.storages import cuda_storages
from labkit.show.step.collect import record


def perceptron():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).to("cuda")
    return model, lab.randn(5, 4).to("cuda"), lab.tensor([0, 1, 2, 0, 1]).to("cuda")


def step_of(model, x, target):
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        scores = model(x)
        loss = nn.functional.cross_entropy(scores, target)
        loss.backward()
        optimizer.step()

    return step


@pytest.fixture(scope="module", autouse=True)
def device():
    """A device of its own: what is queued, loaded or handed out on another says nothing here."""
    driver = EmulatorDriver(capacity=64 << 20)
    with cuda.use(driver):
        yield driver
    driver.reset()
    driver.worker.stop()
    driver.arena.close()


@pytest.fixture(scope="module")
def run(device):
    """A step on a caching allocator of its own, the second of two alike."""
    storages = cuda_storages.install()
    try:
        model, x, target = perceptron()
        step = step_of(model, x, target)
        step()
        storages.allocator.record_memory_history(context=None)
        made = record(step, model)
        own = storages.allocator.history.since()
        yield made, model, own
    finally:
        cuda_storages.uninstall()


def kinds(record):
    return Counter(event.kind for event in record.recording.events)


def test_the_trace_is_the_allocators_own(run):
    made, _, own = run
    recorded = [(e["action"], e["addr"], e["size"]) for e in made.recording.trace]
    assert recorded == [(e.action, e.address, e.size) for e in own]
    counts = [event.memory for event in made.recording.events]
    assert counts == sorted(counts)
    assert counts[-1] == len(own)


def test_an_allocation_is_an_event_at_its_entry(run):
    made, _, own = run
    allocated = [e.memory for e in made.recording.events if e.kind == "allocation"]
    assert [own[place - 1].action for place in allocated] == ["alloc"] * len(allocated)
    assert len(allocated) == sum(entry.action == "alloc" for entry in own)


def test_recording_asks_for_the_same_memory_as_a_plain_step():
    storages = cuda_storages.install()
    try:
        step = step_of(*perceptron())
        traces = []
        for run in (step, step, step, lambda: record(step)):
            storages.allocator.record_memory_history(context=None)
            run()
            traces.append([(e.action, e.size) for e in storages.allocator.history.since()])
        assert traces[-1] == traces[-2] == traces[-3]
    finally:
        cuda_storages.uninstall()


def test_every_kernel_belongs_to_an_operator_and_runs_after_it_is_queued(run):
    recording = run[0].recording
    launches = [launch for launch in recording.launches if launch.kind == "kernel"]
    assert len(launches) >= 15
    (seed,) = (launch for launch in launches if launch.call < 0)
    assert seed.name == "lab_fill_"  # the gradient of the loss: backward fills it itself
    for launch in launches:
        assert launch.queued < launch.ran
        assert launch.writes
    for launch in (launch for launch in launches if launch is not seed):
        call = recording.calls[launch.call]
        assert call.begin < launch.queued < call.end
        assert call.hops[-1].slot == "CUDA"


def test_a_kernel_writes_the_block_that_its_operator_was_given(run):
    recording = run[0].recording
    relu = next(launch for launch in recording.launches if launch.name == "lab_relu")
    alive = {}
    for entry in recording.trace[: recording.events[relu.queued].memory]:
        if entry["action"] == "alloc":
            alive[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_completed":
            alive.pop(entry["addr"], None)  # from before the step
    assert alive[relu.writes[0]] == 5 * 6 * 4


def test_events_name_the_line_that_ran(run):
    recording = run[0].recording

    def line_of(event):
        place, number = recording.lines.chains[event.line][0]
        function = recording.lines.functions[place]
        return function.lines[number - function.first_line].strip()

    said = {event.kind: line_of(event) for event in recording.events if event.line >= 0}
    assert said["backward"] == said["node runs"] == said["gradient"] == "loss.backward()"
    calls = [line_of(event) for event in recording.events if event.kind == "call"]
    assert calls[0] == "scores = model(x)"
    assert calls[-1] == "optimizer.step()"


def test_nodes_are_recorded_in_forward_and_run_in_backward_the_other_way_round(run):
    events = run[0].recording.events
    recorded = [event.node for event in events if event.kind == "node recorded"]
    ran = [event.node for event in events if event.kind == "node runs"]
    operations = set(recorded)
    assert [node for node in ran if node in operations] == recorded[::-1]
    assert {event.phase for event in events if event.kind == "node recorded"} == {"forward"}
    assert kinds(run[0])["accumulation"] == 4
    edges = [event.edge for event in events if event.kind == "gradient"]
    assert sorted(edges) == list(range(len(run[0].walk.edges)))


def test_gradients_of_the_leaves_are_those_of_the_model(run):
    made, model, _ = run
    found = {}
    for event, heat in made.heats.items():
        text = made.recording.events[event].text
        if made.recording.events[event].kind == "accumulation":
            found[text.partition(".grad")[0]] = np.array(heat["numbers"])
    assert len(found) == 4
    for name, parameter in model.named_parameters():
        expected = parameter.grad.cpu().numpy().reshape(-1)
        assert found[name] == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_memory_from_before_is_named_and_the_driver_gets_its_doors_back():
    from labkit.cuda.select import current_driver

    model, x, target = perceptron()
    made = record(step_of(model, x, target), model)
    parameters = {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert set(made.names.values()) == parameters | {"x", "target"}
    assert set(made.names) <= set(made.outside)
    assert made.remarks == ["For this step labkit's caching allocator served the device's memory."]
    assert not {"submit", "free", "launch"} & vars(current_driver()).keys()


def test_two_streams_keep_their_names_and_an_error_of_the_engine_ends_the_record():
    x = lab.randn(4).to("cuda").requires_grad_()
    side = cuda.Stream()

    def step():
        y = x * 2
        with side:
            side.wait_stream(cuda.default_stream())
            z = x * 3
        cuda.default_stream().wait_stream(side)
        (y + z).sum().backward()
        with lab.no_grad():
            w = x.exp()
        y = x.exp()
        with lab.no_grad():
            y.mul_(w)
        y.sum().backward()

    made = record(step)
    launches = made.recording.launches
    assert {launch.stream for launch in launches} == {0, side.handle}
    assert "modified by an inplace operation" in made.error
    assert kinds(made)["backward"] == 2


def test_a_step_on_the_host_has_no_memory_and_no_streams():
    x = lab.ones(3, requires_grad=True)
    made = record(lambda: (x * 2).sum().backward())
    assert made.recording.launches == []
    assert made.recording.trace == []
    assert kinds(made)["gradient"] == 2


def test_what_has_no_backward_is_refused_and_what_the_step_raises_is_raised():
    with pytest.raises(ValueError, match="ran no backward"):
        record(lambda: None)
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 / 0)
