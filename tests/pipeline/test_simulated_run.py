"""Who does what when on the simulated clock."""

import pytest

from labkit.pipeline.profiling.simulated_run import QueuedDevice, SimulatedRun


def test_work_begins_when_its_lane_is_free_and_what_it_waits_for_has_ended():
    run = SimulatedRun()
    first = run.do("loader", "0", 3)
    run.do("loader", "1", 4)
    copy = run.do("bus", "0", 2, after=[first])
    run.do("bus", "1", 1)
    starts = [(span["lane"], span["start"], span["end"]) for span in run.spans]
    assert starts == [("loader", 0, 3), ("loader", 3, 7), ("bus", 3, 5), ("bus", 5, 6)]
    assert run.spans[3]["after"] == [copy]


def test_work_takes_no_negative_time():
    with pytest.raises(ValueError, match="-1"):
        SimulatedRun().do("host", "decode", -1)


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
