"""Every order that streams and events allow, and how often the host asks."""

import labkit.cuda as cuda
from labkit.cuda.emulator.orders import every_order
from labkit.cuda.host_calls import host_calls


def orders_of(device, program):
    """Each order in which `program(say, first, second)` says its words."""
    streams = cuda.Stream(), cuda.Stream()

    def run():
        said = []

        def say(word, stream):
            device.launch_host_function(stream.handle, lambda: said.append(word))

        program(say, *streams)
        device.synchronize()
        return "".join(said)

    return list(every_order(device.queue, run))


def test_two_streams_mix_in_every_way_and_each_keeps_its_own_order(small_device):
    def program(say, first, second):
        for word in "ab":
            say(word, first)
        for word in "xy":
            say(word, second)

    found = orders_of(small_device, program)
    assert sorted(found) == sorted(["abxy", "axby", "axyb", "xaby", "xayb", "xyab"])
    assert small_device.queue.seed is None


def test_an_event_leaves_the_orders_that_it_allows(small_device):
    def program(say, first, second):
        say("a", first)
        second.wait_stream(first)
        say("x", second)
        say("b", first)

    assert set(orders_of(small_device, program)) == {"axb", "abx"}


def test_what_queues_work_is_counted_inside_and_not_behind(small_device):
    address = small_device.malloc(1024)
    with host_calls(small_device) as asked:
        small_device.memset(address, 1, 512)
        small_device.memcpy(address + 512, address, 512)
        small_device.launch_host_function(0, lambda: None)
        cuda.Graph(small_device).instantiate().replay()
        small_device.synchronize()
    assert dict(asked) == {
        "memset_async": 1, "memcpy_async": 1, "launch_host_function": 1, "graph_launch": 1,
    }  # fmt: skip
    small_device.memset(address, 0, 512)
    assert asked["memset_async"] == 1
