"""`show.graph` on captured CUDA graphs."""

import pytest

import labkit as lab
from labkit import cuda, show
from labkit.cuda import tensor_memory
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.memory.storages import cuda_storages


@pytest.fixture
def device():
    before = tensor_memory.serving()
    driver = EmulatorDriver(capacity=16 << 20, why="for graphs")
    with cuda.use(driver):
        cuda_storages.install()
        yield driver
        tensor_memory.install(before)
    driver.reset()
    driver.worker.stop()
    driver.arena.close()


def test_nodes_name_the_memory_they_were_captured_with(device):
    x = lab.zeros(3, device="cuda")
    stream = cuda.Stream()
    with cuda.capture(stream) as captured:
        y = (x * 2).relu()
    assert y.numel() == 3
    view = show.graph(captured)
    assert [node["label"] for node in view._nodes] == ["mul", "relu"]
    assert [node["badges"] for node in view._nodes] == [
        ["reads x", "writes temp 1"], ["reads temp 1", "writes y"],
    ]  # fmt: skip
    assert view._nodes[0]["details"]["reads"] == f"x at {x.data_ptr():#x}"
    assert view._edges == [{"source": 0, "target": 1}]
    x = lab.zeros(3, device="cuda")
    assert show.graph(captured)._nodes[0]["badges"][0].startswith("reads temp")


def test_copies_fills_and_joins_have_their_addresses(device):
    x, y = lab.zeros(3, device="cuda"), lab.zeros(3, device="cuda")
    stream = cuda.Stream()
    with cuda.capture(stream) as graph:
        device.memset_async(x.data_ptr(), 0, 12, stream.handle)
        device.memcpy_async(y.data_ptr(), x.data_ptr(), 12, stream.handle)
        device.launch_host_function(stream.handle, lambda: None)
    view = show.graph(graph, graph)
    assert [node["badges"] for node in view._nodes[:3]] == [
        ["writes x"], ["reads x", "writes y"], [],
    ]  # fmt: skip
    assert len(view._nodes) == 6
    assert view._edges[2:] == [{"source": 3, "target": 4}, {"source": 4, "target": 5}]
