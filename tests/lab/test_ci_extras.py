"""What is optional for a user is installed in CI, so that no test is skipped for the lack of it."""

import sys
from pathlib import Path

import pytest

from labkit.launcher import cli

IN_CI = ("inspect", "workshop")


@pytest.mark.parametrize(
    ("ci", "expected"),
    [
        ("true", ("test", "video", *(IN_CI if sys.platform == "linux" else ()))),
        ("", ("test", "video")),
    ],
)
def test_what_few_need_is_installed_in_ci_alone(monkeypatch, ci, expected):
    asked = []

    def ready(root, extras):
        asked.append(extras)

    monkeypatch.setattr(cli, "ready", ready)
    monkeypatch.setattr(cli, "has_gpu", lambda: False)
    monkeypatch.setenv("CI", ci)
    assert cli.main(str(Path(__file__).parents[2]), ["setup"]) == 0
    assert asked == [expected]
