"""What is optional for a user is installed in CI, so that no test is skipped for the lack of it."""

import sys
from pathlib import Path

import pytest

from labkit.launcher import cli


@pytest.mark.parametrize(
    ("ci", "expected"),
    [
        ("true", ("test", "video", "inspect") if sys.platform == "linux" else ("test", "video")),
        ("", ("test", "video")),
    ],
)
def test_the_compiler_is_installed_in_ci_alone(monkeypatch, ci, expected):
    asked = []

    def ready(root, extras):
        asked.append(extras)

    monkeypatch.setattr(cli, "ready", ready)
    monkeypatch.setattr(cli, "has_gpu", lambda: False)
    monkeypatch.setenv("CI", ci)
    assert cli.main(str(Path(__file__).parents[2]), ["setup"]) == 0
    assert asked == [expected]
