import json
import math

import pytest

from labkit import bench
from labkit.bench import Bench, Total, measure


def test_a_ratio_is_the_median_of_turns():
    light, heavy = (lambda: sum(range(200))), (lambda: sum(range(4000)))
    result = measure(Bench("light / heavy", light, heavy, 0.5, calls=50))
    assert result.ratio < 1
    assert result.met
    assert result.samples == 9
    assert result.spread[0] <= result.ratio <= result.spread[1]
    assert not measure(Bench("heavy / light", heavy, light, 0.5, calls=50)).met


def test_without_a_goal_nothing_is_missed():
    result = measure(Bench("same", lambda: None, lambda: None, calls=50))
    assert result.met
    assert math.isinf(result.goal)
    assert "goal" not in str(result)


def test_a_total_has_a_limit_in_seconds():
    assert measure(Total("quick", lambda: None, 5.0)).met
    assert "MISSED" in str(measure(Total("never", lambda: sum(range(1000)), 0.0)))


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="median of 3"):
        measure(Bench("few", lambda: None, lambda: None), 3)


def test_benchmarks_are_found_by_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "bench_tiny.py").write_text(
        "from labkit.bench import Bench\n"
        "def BENCHES():\n    yield Bench('tiny', lambda: 1, lambda: sum(range(999)), 1.0, 20)\n"
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
