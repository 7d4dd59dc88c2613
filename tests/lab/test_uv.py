"""Which installer is taken, and how each is asked for a torch without CUDA."""

import sys
from pathlib import Path

import pytest

from labkit.launcher import installer
from labkit.launcher.environment import Environment
from labkit.launcher.problem import Problem

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has torch with CUDA")
NO_CPU_INDEX = 'case "$*" in *torch-backend*) echo "cause: dns error" >&2; exit 2;; esac'


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A Linux without GPU, without uv, and with nothing said about where packages come from."""
    for name in (*installer.SUPPLIES_OF_UV, "PIP_NO_INDEX", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path, Path(sys.executable))


def fake_uv(folder, script=""):
    """A uv that writes down how it was called."""
    path = folder / "uv"
    log = folder / "calls"
    path.write_text(f'#!/bin/sh\necho "$@" >> {log}\n{script}\n')
    path.chmod(0o755)
    return log


def calls(log):
    prefix = f"pip install --python {sys.executable} "
    return [line.removeprefix(prefix) for line in log.read_text().splitlines()]


EXACT = "--constraint constraints.txt"


def test_uv_on_path_is_asked_for_the_cpu_build(machine, environment):
    log = fake_uv(machine)
    installer.choose_installer(environment, print).install_torch()
    assert calls(log) == [f"torch==2.13.0 --torch-backend cpu {EXACT}"]


def test_with_a_gpu_the_cuda_build_is_taken(machine, environment):
    (machine / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200'\n")
    (machine / "nvidia-smi").chmod(0o755)
    log = fake_uv(machine)
    installer.choose_installer(environment, print).install_torch()
    assert calls(log) == [f"torch==2.13.0 {EXACT}"]


def test_wheels_at_hand_are_passed_on_to_uv(machine, environment, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", "/some/wheels")
    chosen = installer.choose_installer(environment, print)
    assert isinstance(chosen, installer.Pip)
    log = fake_uv(machine, f'echo "find-links=$UV_FIND_LINKS" >> {machine / "calls"}')
    installer.choose_installer(environment, print).install_torch()
    assert calls(log) == [f"torch==2.13.0 {EXACT}", "find-links=/some/wheels"]


def test_an_unreachable_cpu_index_falls_back_to_the_default_build(machine, environment, capfd):
    log = fake_uv(machine, NO_CPU_INDEX)
    installer.choose_installer(environment, print).install_torch()
    assert calls(log) == [
        f"torch==2.13.0 --torch-backend cpu {EXACT}",
        f"torch==2.13.0 {EXACT}",
    ]
    assert "about 3 GB of CUDA libraries" in capfd.readouterr().out


def test_another_failure_of_uv_is_not_papered_over(machine, environment):
    log = fake_uv(machine, 'echo "No space left on device (os error 28)" >&2; exit 2')
    with pytest.raises(Problem, match="disk is full"):
        installer.choose_installer(environment, print).install_torch()
    assert len(calls(log)) == 1


def test_without_uv_pip_fetches_it(machine, environment, monkeypatch):
    fetched = []
    monkeypatch.setattr(installer.Pip, "install", lambda pip, names, what: fetched.append(names))
    chosen = installer.choose_installer(environment, lambda line: None)
    assert fetched == [["uv"]]
    assert isinstance(chosen, installer.Uv)
    assert (chosen.path, chosen.cpu_torch) == (Path(sys.executable).with_name("uv"), True)


@pytest.mark.parametrize("name", ["PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_NO_INDEX"])
def test_who_says_where_packages_come_from_is_taken_at_his_word(
    machine, environment, monkeypatch, name
):
    monkeypatch.setenv(name, "1")
    assert isinstance(installer.choose_installer(environment, print), installer.Pip)
