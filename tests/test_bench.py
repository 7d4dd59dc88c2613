import json
import math

import pytest

from labkit import bench, cli
from labkit.bench import Bench, Count, Total, measure


@pytest.fixture(autouse=True)
def clockwork(monkeypatch):
    """What a function returns is what it is said to have taken, in nanoseconds."""
    monkeypatch.setattr(bench, "_time", lambda function, calls, clock: float(function()))


def ticking(*values):
    turns = iter(values * 20)
    return lambda: next(turns)


def test_a_ratio_is_the_median_of_turns():
    # the first turn of each side warms up and is not counted
    mine, other = ticking(9, 1, 1, 1, 1, 2, 5, 5, 5, 5), ticking(9, *[4] * 9)
    result = measure(Bench("mine / other", mine, other, 0.5, calls=50, work=2))
    assert (result.ratio, result.spread) == (0.5, (0.25, 1.25))
    assert (result.mine_ns, result.other_ns) == (1.0, 2.0)
    assert result.met
    assert not measure(Bench("mine / other", lambda: 3, lambda: 4, 0.5)).met


def test_without_a_goal_nothing_is_missed():
    result = measure(Bench("same", lambda: 1, lambda: 1, calls=50))
    assert result.met
    assert math.isinf(result.goal)
    assert "goal" not in str(result)


def test_a_total_has_a_limit_in_seconds():
    assert measure(Total("quick", lambda: 4.9e9, 5.0)).met
    assert "MISSED" in str(measure(Total("slow", lambda: 5.1e9, 5.0)))


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="median of 3"):
        measure(Bench("few", lambda: None, lambda: None), 3)


def test_the_command_tells_it_in_one_line():
    with pytest.raises(SystemExit, match="labkit bench: a median of 7 samples says little"):
        cli.main(["bench", "dispatcher", "--samples", "7"])


def test_benchmarks_are_found_by_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "bench_tiny.py").write_text(
        "from labkit.bench import Bench\n"
        "def BENCHES():\n    yield Bench('tiny', lambda: 1, lambda: 2, 1.0, 20)\n"
    )
    (tmp_path / "bench_silent.py").write_text("offers = None\n")
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
    assert list(bench.discover()) == ["tiny"]
    with pytest.raises(ValueError, match="silent, tiny"):
        bench.discover(["loud"])
    arguments = type("Arguments", (), {"names": [], "samples": 9, "json": tmp_path / "out.json"})
    assert bench.run(arguments) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["results"]["tiny"][0]["name"] == "tiny"
    assert written["machine"]["torch"]
    assert "tiny" in capsys.readouterr().out


def test_a_count_is_a_ratio_without_a_unit():
    result = measure(Count("crossings", lambda: 12, lambda: 10, goal=1.5))
    assert (result.ratio, result.met) == (1.2, True)
    assert str(result) == "crossings: 12 beside 10, ratio 1.2 (1.2 to 1.2, goal 1.5) met"
    assert not measure(Count("crossings", lambda: 2, lambda: 0, goal=1.5)).met
