"""A host and a device with a queue, on the simulated clock."""

import pytest

from labkit.pipeline.profiling.queued_device import QueuedDevice


def test_the_host_goes_on_and_waits_when_it_is_told_to():
    device = QueuedDevice()
    device.launch("network", 8000)
    assert device.now() == 20
    device.synchronize()
    assert device.now() == 8020
    before = len(device.run.spans)
    device.synchronize()
    assert len(device.run.spans) == before


def test_events_are_marks_in_the_queue():
    device = QueuedDevice()
    device.copy("upload", 1000)
    begin = device.event()
    device.launch("network", 8000)
    end = device.event()
    assert not end.query()
    with pytest.raises(RuntimeError, match="synchronize first"):
        begin.elapsed_time(end)
    device.synchronize()
    assert begin.elapsed_time(end) == 8000


def test_between_two_events_on_an_idle_device_lies_the_hosts_time():
    device = QueuedDevice()
    begin = device.event()
    device.host("decode", 3000)
    assert begin.elapsed_time(device.event()) == 3000
