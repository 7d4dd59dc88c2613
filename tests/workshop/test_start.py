"""What `labkit workshop start` says where it cannot start."""

import importlib.util

import pytest

from labkit import cli


@pytest.mark.parametrize(("has_pip", "how"), [(True, "-m pip install"), (False, "uv pip install")])
def test_what_is_not_installed_is_named_with_a_command_that_can_run(
    has_pip, how, tmp_path, monkeypatch, capsys
):
    """An environment that uv made has no pip."""
    there = {"pip": has_pip, "jupyterhub": False}
    find = importlib.util.find_spec

    def find_spec(name, *rest):
        return there.get(name, True) and (find("json") if name in there else find(name, *rest))

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *r: find_spec(n, *r) or None)
    assert cli.main(["workshop", "start", "--folder", str(tmp_path / "room")]) == 1
    said = capsys.readouterr().err
    assert "Not installed: jupyterhub" in said
    assert f"{how} -c constraints.txt -e '.[workshop]'" in said
