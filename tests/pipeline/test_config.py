"""Settings are typed; what is misspelt, of another kind or too small is refused by name."""

from dataclasses import dataclass
from typing import Literal

import pytest

from labkit.pipeline.config import ConfigError, dump, load, parse, setting
from labkit.pipeline.settings import Settings


@dataclass(frozen=True)
class Inner:
    workers: int = setting(2, at_least=1)
    rate: float = setting(0.5, at_least=0)
    kind: Literal["fast", "small", 3] = "fast"
    quiet: bool = False
    name: str | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()


def test_what_a_file_does_not_name_has_its_default(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("inner:\n  workers: 5\n  rate: 2\n", encoding="utf-8")
    assert load(file, Outer) == Outer(Inner(workers=5, rate=2.0))
    file.write_text("", encoding="utf-8")
    assert load(file, Outer) == Outer()


@pytest.mark.parametrize("settings", [Outer(Inner(7, 0.25, "small", True, "x")), Settings()])
def test_dumped_settings_are_read_back(tmp_path, settings):
    file = tmp_path / "settings.yaml"
    file.write_text(dump(settings), encoding="utf-8")
    assert load(file, type(settings)) == settings


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"iner": {}}, "iner is no setting; did you mean inner?"),
        ({"inner": {"worker": 1}}, "inner.worker is no setting; did you mean workers?"),
        ({"inner": {"zzz": 1}}, "inner.zzz is no setting; there are workers, rate"),
        ({"inner": {"workers": "4"}}, "inner.workers is of type int, got '4'"),
        ({"inner": {"workers": True}}, "inner.workers is of type int, got True"),
        ({"inner": {"workers": 1.0}}, "inner.workers is of type int, got 1.0"),
        ({"inner": {"workers": None}}, "inner.workers is of type int, got None"),
        ({"inner": {"workers": 0}}, "inner.workers is at least 1, got 0"),
        ({"inner": {"rate": float("nan")}}, "inner.rate is at least 0, got nan"),
        ({"inner": {"kind": "slow"}}, "inner.kind is one of fast, small, 3, got 'slow'"),
        ({"inner": {"kind": ["fast"]}}, "inner.kind is one of"),
        ({"inner": {"quiet": 1}}, "inner.quiet is of type bool, got 1"),
        ({"inner": 3}, "inner holds settings by name, got 3"),
        ({"inner": {3: 4}}, "inner.3 is no setting"),
        ([], "the file holds settings by name"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(given, told):
    with pytest.raises(ConfigError) as refused:
        parse(given, Outer)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"inner: {workers: 1, workers: 2}", "workers stands twice in the section of line 1"),
        (b"inner: [", "is not YAML"),
        (b"\xff\xfe\xff", "is not UTF-8"),
        (b"inner: !!python/object:os.system {}", "is not YAML"),
    ],
)
def test_a_broken_file_is_refused_with_its_name(tmp_path, text, told):
    file = tmp_path / "settings.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=told) as refused:
        load(file, Outer)
    assert "settings.yaml" in str(refused.value)
