"""Who does what when on the simulated clock."""

import pytest

from labkit.cuda.simulated_run import SimulatedRun


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
