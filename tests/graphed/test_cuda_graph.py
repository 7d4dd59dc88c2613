import pytest

import labkit as lab
from labkit import cuda, nn, optim
from labkit.cuda.emulator.orders import every_order
from labkit.cuda.errors import CaptureError
from labkit.cuda.host_calls import host_calls
from labkit.graphed import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing


def on_device(*numbers):
    return lab.tensor(list(numbers)).to("cuda")


def blocks_of(storages, pool):
    return [
        (block["address"], block["size"])
        for segment in storages.allocator.snapshot()["segments"]
        if tuple(segment["segment_pool_id"]) == tuple(pool)
        for block in segment["blocks"]
    ]


def test_a_replay_reads_the_captured_address_and_not_the_name(device):
    x, captured = on_device(1.0, 2.0), CUDAGraph()
    with graph(captured):
        y = x * 2 + 1
    captured.replay()
    assert y.tolist() == [3.0, 5.0]
    old, x = x, on_device(5.0, 6.0)
    captured.replay()
    assert y.tolist() == [3.0, 5.0]
    old.copy_(x)
    captured.replay()
    assert y.tolist() == [11.0, 13.0]


def test_nothing_runs_in_a_capture_and_a_replay_is_one_call(device):
    x, captured = on_device(1.0, 2.0), CUDAGraph()
    ran = device.queue.log[-1].id
    with host_calls() as asked, graph(captured):
        y = (x * 2 + 1).relu()
    assert (asked["launch"], len(captured.nodes)) == (3, 3)
    assert device.queue.log[-1].id == ran
    with host_calls() as asked:
        captured.replay()
    assert dict(asked) == {"graph_launch": 1}
    assert y.tolist() == [3.0, 5.0]


def test_a_whole_training_step_is_captured_and_trains_as_the_eager_one(device):
    lab.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to("cuda")
    batches = [lab.randn(6, 4).to("cuda") for _ in range(4)]
    start = [parameter.clone() for parameter in model.parameters()]
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def rewind():
        with lab.no_grad():
            for parameter, value in zip(model.parameters(), start, strict=True):
                parameter.copy_(value)
                optimizer.state[parameter]["momentum_buffer"].zero_()

    step(batches[0])
    rewind()
    eager = [step(x).item() for x in batches]
    static, captured = batches[0].clone(), CUDAGraph()
    with graph(captured):
        loss = step(static)
    rewind()
    replayed = []
    for x in batches:
        static.copy_(x)
        captured.replay()
        replayed.append(loss.item())
    assert replayed == eager


FORBIDDEN = {
    "synchronising the device": lambda x: cuda.current_driver().synchronize(),
    "synchronising the stream": lambda x: cuda.current_stream().synchronize(),
    "reading a number": lambda x: x.sum().item(),
    "asking which elements are not zero": lambda x: x.nonzero(),
    "a copy from pageable memory": lambda x: lab.ones(2).to("cuda"),
    "a copy to pageable memory": lambda x: x.cpu(),
    "memory that no pool serves": lambda x: cuda.current_driver().malloc(512),
    "launching another graph": lambda x: cuda.Graph().instantiate().replay(),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_capture_refuses_what_waits_and_leaves_the_device_usable(device, what):
    x, captured = on_device(1.0, 2.0), CUDAGraph()
    with pytest.raises(CaptureError, match="not allowed while a stream captures"), graph(captured):
        FORBIDDEN[what](x)
    with pytest.raises(RuntimeError, match="after a capture that succeeded"):
        captured.replay()
    with graph(captured):
        y = x + 1
    captured.replay()
    assert y.tolist() == [2.0, 3.0]


def test_an_error_of_the_body_is_told_and_the_pool_is_given_back(storages, device):
    captured = CUDAGraph()
    with pytest.raises(ZeroDivisionError), graph(captured):
        lab.ones(4, device="cuda")
        raise ZeroDivisionError
    assert not storages.allocator.private_pools.capturing
    assert not is_current_stream_capturing()
    storages.current.empty_cache()
    assert storages.allocator.private_pools._pools == {}


def test_the_default_stream_cannot_capture(device):
    with pytest.raises(RuntimeError, match="default stream cannot capture"):
        CUDAGraph().capture_begin()


def test_without_the_caching_allocator_there_is_no_pool(small_driver):
    with pytest.raises(RuntimeError, match="needs the caching allocator"), graph(CUDAGraph()):
        pass


@pytest.fixture
def small_driver(device):
    from labkit.cuda import tensor_memory

    before = tensor_memory.serving()
    tensor_memory.install()
    yield device
    tensor_memory.install(before)


def test_the_addresses_of_a_pool_stay_taken_between_replays(storages, device):
    x, captured = on_device(*range(1000)), CUDAGraph()
    with graph(captured):
        y = (((x * 2) + 1) * 2 + 1) * 2
    pooled = blocks_of(storages, captured.pool())
    written = range(min(a for a, _ in pooled), max(a + size for a, size in pooled))
    others = []
    for _ in range(200):  # temporaries are free in the pool, and nobody else gets them
        others.append(lab.ones(1000, device="cuda"))
        assert others[-1].data_ptr() not in written
    captured.replay()
    assert all(other.sum().item() == 1000 for other in others)
    assert y.tolist() == [8 * i + 6 for i in range(1000)]
    assert blocks_of(storages, captured.pool()) == pooled


def test_without_a_pool_a_replay_writes_into_somebody_elses_tensor(device):
    x, stream = on_device(*range(1000)), cuda.Stream()
    with stream:
        (x * 2) + 1  # leaves two free blocks of this stream in the ordinary pool
    with cuda.capture(stream) as recipe:
        y = (x * 2) + 1
    with stream:
        mine = lab.ones(1000, device="cuda")  # the block of x * 2
    executable = recipe.instantiate()
    executable.replay(stream)
    stream.synchronize()
    assert mine.sum().item() != 1000
    assert y.tolist()[:3] == [1.0, 3.0, 5.0]


def test_a_pool_outlives_its_tensors_and_goes_with_reset(storages, device):
    captured = CUDAGraph()
    with graph(captured):
        y = lab.ones(1000, device="cuda") + 1
    del y
    storages.current.empty_cache()
    assert blocks_of(storages, captured.pool())
    pool = captured.pool()
    captured.reset()
    storages.current.empty_cache()
    assert not blocks_of(storages, pool)
    with pytest.raises(RuntimeError, match="once it is captured"):
        captured.pool()


def test_dropped_graphs_leave_no_pool_behind(storages, device):
    x = on_device(1.0, 2.0)
    pools = storages.allocator.private_pools._pools
    for _ in range(4):
        with graph(CUDAGraph()):
            x * 2
        assert len(pools) == 1  # the last one's memory, until somebody needs it
    storages.current.empty_cache()
    assert pools == {}


def test_a_graph_that_only_its_driver_can_read_says_so():
    captured = CUDAGraph()
    captured.nodes = (object(),)  # as a GPU's driver gives it
    assert repr(captured) == "CUDAGraph(captured by the driver)"


def test_two_graphs_share_a_pool(storages, device):
    shared, first, second = graph_pool_handle(), CUDAGraph(), CUDAGraph()
    x = on_device(1.0, 2.0)
    stream = cuda.Stream()
    with graph(first, shared, stream):
        y = x + 1
    with graph(second, shared, stream):
        z = y * 2
    assert first.pool() == second.pool() == shared
    first.replay()
    second.replay()
    assert z.tolist() == [4.0, 6.0]
    first.reset()
    assert storages.allocator.private_pools[shared].use_count == 1


def fork_and_join(x, captured):
    main, side = cuda.Stream(), cuda.Stream()
    with graph(captured, stream=main):
        a = x * 2
        side.wait_stream(main)
        with side:
            b = a + 1
            c = b * b
        d = a * 3
        main.wait_stream(side)
        return c - d


def test_every_order_that_the_edges_allow_gives_one_result(device):
    x, captured = on_device(1.0, 2.0), CUDAGraph()
    y = fork_and_join(x, captured)
    assert [node.after for node in captured.nodes] == [(), (0,), (1,), (0,), (2, 3)]
    assert repr(captured) == "CUDAGraph(5 nodes, 5 edges)"

    def replayed():
        first = device.queue.log[-1].id + 1
        y.fill_(0)
        captured.replay()
        device.synchronize()
        device.queue.reseed(None)
        work = [one for one in device.queue.log if one.id >= first and one.kind == "kernel"]
        order = tuple(one.id - first for one in sorted(work, key=lambda one: one.done_as))
        return order, tuple(y.tolist())

    found = list(every_order(device.queue, replayed))
    assert len({order for order, _ in found}) == len(found) == 3
    assert {values for _, values in found} == {(3.0, 13.0)}


def test_a_missing_edge_shows_in_one_of_the_orders(device):
    x, captured = on_device(1.0, 2.0), CUDAGraph()
    y = fork_and_join(x, captured)
    recipe = cuda.Graph()
    recipe.nodes = list(captured.nodes)
    recipe.nodes[4].after = (2,)  # no longer after d
    executable = recipe.instantiate()

    def replayed():
        x.fill_(1)
        captured.replay()
        x.fill_(3)  # what d holds now is of the number before
        executable.replay()
        device.synchronize()
        device.queue.reseed(None)
        return y.tolist()[0]

    assert set(every_order(device.queue, replayed)) == {49 - 18, 49 - 6}
